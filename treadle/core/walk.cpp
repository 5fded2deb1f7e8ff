// Walks over graphs: the nodes below some roots, their fields side by side
// (batch/columns.py), and how a small graph is built (graph/outline.py).
#include "arrays.hpp"

#include <memory>
#include <vector>

namespace treadle {
namespace {

// Numbers for objects in the order they are found. It is used again and again: a slot is
// taken if its use is the present one, so that nothing has to be emptied.
class Table {
 public:
  void begin() {
    if (slots_.empty()) slots_.assign(1024, {});
    if (++use_ == 0) {  // the uses are over: none may be taken for the present one
      slots_.assign(slots_.size(), {});
      use_ = 1;
    }
    found_.clear();
  }

  // The number of an object, which is a new one if that is how many there were.
  int64_t of(PyObject* x) {
    size_t mask = slots_.size() - 1, k = place(x) & mask;
    while (slots_[k].use == use_ && slots_[k].x != x) k = (k + 1) & mask;
    if (slots_[k].use == use_) return slots_[k].number;
    auto number = static_cast<uint32_t>(found_.size());
    slots_[k] = {x, number, use_};
    found_.push_back(x);
    if (2 * found_.size() > slots_.size()) grow();
    return number;
  }

  void prefetch(PyObject* x) const {
    TREADLE_PREFETCH(&slots_[place(x) & (slots_.size() - 1)]);
  }
  size_t size() const { return found_.size(); }
  size_t room() const { return slots_.size(); }
  PyObject* operator[](size_t k) const { return found_[k]; }

 private:
  struct Taken {
    PyObject* x;
    uint32_t number, use;
  };
  static size_t place(PyObject* x) {
    return (reinterpret_cast<uintptr_t>(x) * 0x9E3779B97F4A7C15u) >> 24;
  }
  void grow() {
    std::vector<PyObject*> known;
    known.swap(found_);
    slots_.assign(4 * slots_.size(), {});
    use_ = 1;
    for (PyObject* x : known) of(x);
  }

  std::vector<Taken> slots_;
  std::vector<PyObject*> found_;
  uint32_t use_ = 0;
};

// What is read of a node.
struct Fields {
  int64_t op, kind, type, stored, depth, references;
  bool marked;
};

// What a walk writes, node by node as they are found.
struct Walk {
  Table nodes, things;
  std::vector<int64_t> serials, starts, operands;
  std::vector<Fields> fields;  // where they are asked for

  void begin() {
    nodes.begin();
    things.begin();
    for (auto* numbers : {&serials, &starts, &operands}) numbers->clear();
    fields.clear();
  }
  void describe(PyObject* x) {
    PyObject *op = treadle::nodes.op.of(x), *stored = treadle::nodes.stored.of(x);
    fields.push_back({things.of(op), things.of(reinterpret_cast<PyObject*>(Py_TYPE(op))),
                      things.of(treadle::nodes.type.of(x)),
                      stored == Py_None ? 0 : reinterpret_cast<intptr_t>(stored),
                      number(treadle::nodes.depth.of(x)), Py_REFCNT(x),
                      treadle::nodes.mark.of(x) != Py_None});
  }
};

// Memory for a walk that nobody else uses meanwhile: a finalizer may walk, too. A thread
// keeps it unless it is large.
class Lease {
 public:
  static constexpr size_t kept = size_t{1} << 18;  // slots
  Lease() : walk_(std::move(kept_)) {
    if (!walk_) walk_ = std::make_unique<Walk>();
    walk_->begin();
  }
  ~Lease() {
    if (walk_->nodes.room() <= kept) kept_ = std::move(walk_);
  }
  Walk* operator->() const { return walk_.get(); }
  Walk& operator*() const { return *walk_; }

 private:
  static thread_local std::unique_ptr<Walk> kept_;
  std::unique_ptr<Walk> walk_;
};
thread_local std::unique_ptr<Walk> Lease::kept_;

// Fetches the memory of nodes that come soon, what the fields of nearer ones refer to,
// and where the operands of the next are looked for.
void fetch(const Table& found, size_t k) {
  if (k + 16 < found.size()) {
    TREADLE_PREFETCH(found[k + 16]);
    TREADLE_PREFETCH(reinterpret_cast<char*>(found[k + 16]) + 64);
  }
  if (k + 8 < found.size()) {
    TREADLE_PREFETCH(nodes.inputs.of(found[k + 8]));
    TREADLE_PREFETCH(nodes.serial.of(found[k + 8]));
    TREADLE_PREFETCH(nodes.op.of(found[k + 8]));
  }
  if (k + 4 < found.size()) {
    PyObject* inputs = nodes.inputs.of(found[k + 4]);
    for (Py_ssize_t j = 0; j < std::min<Py_ssize_t>(PyTuple_GET_SIZE(inputs), 4); j++)
      found.prefetch(PyTuple_GET_ITEM(inputs, j));
  }
}

// Whether a list or a tuple has nodes alone.
bool are_nodes(PyObject* roots) {
  if (!PyList_Check(roots) && !PyTuple_Check(roots)) {
    PyErr_SetString(PyExc_TypeError, "a walk begins at a list or a tuple of nodes");
    return false;
  }
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(roots); k++)
    if (!PyObject_TypeCheck(PySequence_Fast_GET_ITEM(roots, k), nodes.kind)) {
      PyErr_SetString(PyExc_TypeError, "a walk begins at nodes");
      return false;
    }
  return true;
}

// All nodes below some roots; to where values begin unless the whole is asked for.
void go(Walk& w, PyObject* roots, bool whole, bool described = false) {
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(roots); k++)
    w.nodes.of(PySequence_Fast_GET_ITEM(roots, k));
  for (size_t k = 0; k < w.nodes.size(); k++) {
    fetch(w.nodes, k);
    PyObject* node = w.nodes[k];
    w.serials.push_back(number(nodes.serial.of(node)));
    w.starts.push_back(static_cast<int64_t>(w.operands.size()));
    if (described) w.describe(node);
    if (!whole && !waits(node)) continue;
    PyObject* inputs = nodes.inputs.of(node);
    for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(inputs); j++)
      w.operands.push_back(w.nodes.of(PyTuple_GET_ITEM(inputs, j)));
  }
  w.starts.push_back(static_cast<int64_t>(w.operands.size()));
}

// The order of some serials: by their digits, the last one first (a radix sort).
std::vector<uint32_t> order_of(const std::vector<int64_t>& serials) {
  constexpr int bits = 11;
  constexpr size_t digits = size_t{1} << bits;
  std::vector<uint32_t> order(serials.size()), next(serials.size());
  for (size_t k = 0; k < order.size(); k++) order[k] = static_cast<uint32_t>(k);
  if (order.empty()) return order;
  auto [least, most] = std::minmax_element(serials.begin(), serials.end());
  const int64_t first = *least, range = *most - first;
  std::vector<uint32_t> ends(digits);
  for (int shift = 0; shift < 63 && range >> shift; shift += bits) {
    auto digit = [&](uint32_t k) { return (serials[k] - first) >> shift & (digits - 1); };
    std::fill(ends.begin(), ends.end(), 0);
    for (uint32_t k : order) ends[digit(k)]++;
    uint32_t before = 0;
    for (uint32_t& end : ends) before += std::exchange(end, before);
    for (uint32_t k : order) next[ends[digit(k)]++] = k;
    order.swap(next);
  }
  return order;
}

// A list of nodes, in an order; the walk may be used by others while it is made.
PyObject* listed(const std::vector<PyObject*>& found) {
  PyObject* made = PyList_New(static_cast<Py_ssize_t>(found.size()));
  if (!made) return nullptr;
  for (size_t k = 0; k < found.size(); k++)
    PyList_SET_ITEM(made, static_cast<Py_ssize_t>(k), Py_NewRef(found[k]));
  return made;
}

std::vector<PyObject*> ordered(const Walk& w, const std::vector<uint32_t>& order) {
  std::vector<PyObject*> found;
  found.reserve(order.size());
  for (uint32_t k : order) found.push_back(w.nodes[k]);
  return found;
}

PyObject* walk(PyObject*, PyObject* args) {
  PyObject* roots;
  int whole;
  if (!PyArg_ParseTuple(args, "Op", &roots, &whole) || !are_nodes(roots))
    return nullptr;
  Lease w;
  go(*w, roots, whole);
  return listed(ordered(*w, order_of(w->serials)));
}

PyObject* columns(PyObject*, PyObject* roots) {
  if (!are_nodes(roots)) return nullptr;
  Lease w;
  go(*w, roots, false, true);
  const size_t count = w->nodes.size();
  const std::vector<uint32_t> order = order_of(w->serials);
  std::vector<uint32_t> rank(count);
  for (size_t k = 0; k < count; k++) rank[order[k]] = static_cast<uint32_t>(k);
  Numbers ops(count), kinds(count), types(count), values(count), serials(count);
  Numbers depths(count), references(count), sizes(count), operands(w->operands.size());
  Marks waiting(count), marked(count);
  for (const Numbers* x : {&ops, &kinds, &types, &values, &serials, &depths, &references,
                           &sizes, &operands})
    if (!*x) return nullptr;
  if (!waiting || !marked) return nullptr;
  size_t read = 0;
  for (size_t k = 0; k < count; k++) {
    const size_t own = order[k];
    const Fields& x = w->fields[own];
    ops.data[k] = x.op;
    kinds.data[k] = x.kind;
    types.data[k] = x.type;
    waiting.data[k] = x.stored == 0;
    values.data[k] = x.stored;
    serials.data[k] = w->serials[own];
    depths.data[k] = x.depth;
    references.data[k] = x.references;
    marked.data[k] = x.marked;
    sizes.data[k] = w->starts[own + 1] - w->starts[own];
    for (int64_t j = w->starts[own]; j < w->starts[own + 1]; j++)
      operands.data[read++] = rank[static_cast<size_t>(w->operands[j])];
  }
  const auto different = static_cast<Py_ssize_t>(w->things.size());
  Ref every(listed(ordered(*w, order)));
  if (!every) return nullptr;
  return Py_BuildValue("NnNNNNNNNNNNN", every.release(), different,
                       ops.release(), kinds.release(),
                       types.release(), values.release(),
                       waiting.release(), marked.release(),
                       serials.release(), depths.release(),
                       references.release(), sizes.release(),
                       operands.release());
}

constexpr int64_t ageless = int64_t{1} << 62;  // graph/outline.py: AGELESS

struct Outline {
  std::vector<int64_t> parts, heads, ages, others, leaves, first, held, open;
};

// Puts down all nodes below the roots, behind values too if that is the whole; false
// where there are too many, or one without a value is marked or reads nothing.
bool outlined(Walk& w, Outline& o, PyObject* roots, size_t most, bool whole) {
  const auto given = static_cast<size_t>(PySequence_Fast_GET_SIZE(roots));
  for (size_t k = 0; k < given; k++)
    w.nodes.of(PySequence_Fast_GET_ITEM(roots, static_cast<Py_ssize_t>(k)));
  o.others.assign(w.nodes.size(), -1);  // the list of roots
  for (size_t k = 0; k < w.nodes.size(); k++) {
    if (k >= most) return false;
    PyObject* x = w.nodes[k];
    o.others[k] += Py_REFCNT(x);
    o.heads.push_back(static_cast<int64_t>(o.parts.size()));
    PyObject* inputs = nodes.inputs.of(x);
    const bool pending = waits(x), open = !pending && whole && PyTuple_GET_SIZE(inputs);
    if (!pending && !open) {
      o.ages.push_back(ageless);
      o.parts.push_back(0);
      o.leaves.push_back(static_cast<int64_t>(k));
      continue;
    }
    if (open) o.open.push_back(static_cast<int64_t>(k));
    if (pending && (nodes.mark.of(x) != Py_None || !PyTuple_GET_SIZE(inputs))) return false;
    o.ages.push_back(number(nodes.serial.of(x)));
    const size_t before = w.things.size();
    o.parts.push_back(w.things.of(nodes.op.of(x)));
    if (w.things.size() > before) o.first.push_back(static_cast<int64_t>(k));
    for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(inputs); j++) {
      const int64_t place = w.nodes.of(PyTuple_GET_ITEM(inputs, j));
      if (w.nodes.size() > o.others.size()) o.others.push_back(0);
      o.others[static_cast<size_t>(place)]--;
      o.parts.push_back(place);
    }
  }
  for (size_t k = given; k < w.nodes.size(); k++)
    if (waits(w.nodes[k]) && o.others[k] > 0)
      o.held.push_back(static_cast<int64_t>(k));
  return true;
}

PyObject* numbers_of(const std::vector<int64_t>& numbers) {
  Ref made(PyList_New(static_cast<Py_ssize_t>(numbers.size())));
  if (!made) return nullptr;
  for (size_t k = 0; k < numbers.size(); k++) {
    PyObject* x = PyLong_FromLongLong(numbers[k]);
    if (!x) return nullptr;
    PyList_SET_ITEM(made.get(), static_cast<Py_ssize_t>(k), x);
  }
  return made.release();
}

PyObject* outline(PyObject*, PyObject* args) {
  PyObject* roots;
  Py_ssize_t most;
  int whole;
  if (!PyArg_ParseTuple(args, "Onp", &roots, &most, &whole) || !are_nodes(roots))
    return nullptr;
  Lease w;
  Outline o;
  if (!outlined(*w, o, roots, static_cast<size_t>(most), whole)) Py_RETURN_NONE;
  std::vector<PyObject*> found, ops;
  for (size_t k = 0; k < w->nodes.size(); k++) found.push_back(w->nodes[k]);
  for (int64_t k : o.first) ops.push_back(nodes.op.of(found[static_cast<size_t>(k)]));
  Ref every(listed(found)), distinct(listed(ops));
  if (!every || !distinct) return nullptr;
  return Py_BuildValue("NNNNNNNNN", every.release(), distinct.release(),
                       numbers_of(o.leaves), numbers_of(o.open), numbers_of(o.others),
                       numbers_of(o.held),
                       Numbers(o.parts).release(), Numbers(o.heads).release(),
                       Numbers(o.ages).release());
}

}  // namespace

PyMethodDef walk_functions[] = {
    {"walk", walk, METH_VARARGS,
     "walk(roots, whole): nodes in creation order, to where values begin or all."},
    {"columns", columns, METH_O, "columns(roots): the fields of Columns in turn."},
    {"outline", outline, METH_VARARGS,
     "outline(roots, most, whole): the fields of Outline in turn, or None."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace treadle
