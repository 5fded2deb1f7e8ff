// Walks over graphs: the nodes below some roots, and their fields side by side
// (batch/columns.py).
#include "walk.hpp"

namespace treadle {

thread_local std::unique_ptr<Walk> Lease::kept_;
PyObject* part = nullptr;

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

PyObject* listed(const std::vector<PyObject*>& found) {
  PyObject* made = PyList_New(static_cast<Py_ssize_t>(found.size()));
  if (!made) return nullptr;
  for (size_t k = 0; k < found.size(); k++)
    PyList_SET_ITEM(made, static_cast<Py_ssize_t>(k), Py_NewRef(found[k]));
  return made;
}

namespace {

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

// Adds the results that somebody holds of nodes to which more refers than was found.
void add_results(Walk& w, std::vector<size_t>& several) {
  std::vector<uint32_t> uses(w.nodes.size());
  for (int64_t place : w.operands) uses[static_cast<size_t>(place)]++;
  for (size_t k : several)
    if (Py_REFCNT(w.nodes[k]) > uses[k])
      each_result(w.nodes[k], [&](PyObject* x) { w.nodes.of(x); });
  several.clear();
}

// All nodes below some roots; to where values begin unless the whole is asked for, and
// then behind values that are newer than a floor, and parts of data newer than another.
// Where they are described, behind values that trained Variables lead to, but for those
// of some serials.
void go(Walk& w, PyObject* roots, bool whole, int64_t floor = -1, int64_t parts = -1,
        PyObject* ends = nullptr) {
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(roots); k++)
    w.nodes.of(PySequence_Fast_GET_ITEM(roots, k));
  std::vector<size_t> several;  // nodes without values that have several results
  for (size_t k = 0;; k++) {
    if (k == w.nodes.size() && !(several.empty() || whole)) add_results(w, several);
    if (k == w.nodes.size()) break;
    fetch(w.nodes, k);
    PyObject* node = w.nodes[k];
    w.serials.push_back(number(nodes.serial.of(node)));
    w.starts.push_back(static_cast<int64_t>(w.operands.size()));
    const bool newer = w.serials.back() > floor;
    if (ends) w.describe(node);
    if (ends && newer && !waits(node) && PyTuple_GET_SIZE(nodes.inputs.of(node)) &&
        leads_behind(nodes.mark.of(node)) &&
        PySet_Contains(ends, nodes.serial.of(node)) == 0)
      w.open();
    if (!waits(node) && !(ends ? w.fields.back().waits : whole && newer)) continue;
    if (w.serials.back() <= parts && nodes.mark.of(node) == part) continue;
    PyObject* inputs = nodes.inputs.of(node);
    for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(inputs); j++)
      w.operands.push_back(w.nodes.of(PyTuple_GET_ITEM(inputs, j)));
    if (results_of(node)) several.push_back(k);
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

std::vector<PyObject*> ordered(const Walk& w, const std::vector<uint32_t>& order) {
  std::vector<PyObject*> found;
  found.reserve(order.size());
  for (uint32_t k : order) found.push_back(w.nodes[k]);
  return found;
}

PyObject* walk(PyObject*, PyObject* args) {
  PyObject* roots;
  int whole;
  long long floor = -1, parts = -1;
  if (!PyArg_ParseTuple(args, "Op|LL", &roots, &whole, &floor, &parts) ||
      !are_nodes(roots))
    return nullptr;
  Lease w;
  go(*w, roots, whole, floor, parts);
  return listed(ordered(*w, order_of(w->serials)));
}

PyObject* columns(PyObject*, PyObject* args) {
  PyObject *roots, *ends;
  long long floor;
  if (!PyArg_ParseTuple(args, "OLO", &roots, &floor, &ends) || !are_nodes(roots))
    return nullptr;
  if (!PyAnySet_Check(ends)) return PyErr_BadArgument(), nullptr;
  Lease w;
  go(*w, roots, false, floor, -1, ends);
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
    waiting.data[k] = x.waits;
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

}  // namespace

PyMethodDef walk_functions[] = {
    {"walk", walk, METH_VARARGS,
     "walk(roots, whole, floor=-1, parts=-1): nodes in creation order, to where values "
     "begin or all, but what is behind values no newer than the floor, and behind parts "
     "of data no newer than theirs."},
    {"columns", columns, METH_VARARGS,
     "columns(roots, floor, ends): the fields of Columns in turn."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace treadle
