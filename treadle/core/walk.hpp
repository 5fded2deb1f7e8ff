// Walks over graphs: numbers for objects in the order they are found, and memory for them.
#pragma once

#include "arrays.hpp"

#include <limits>
#include <memory>
#include <vector>

namespace treadle {

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
  const std::vector<PyObject*>& all() const { return found_; }

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
  bool marked, waits;
};

// Whether trained Variables lie behind a value of a mark, and no more is known of it.
bool leads_behind(PyObject* mark);

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
                      treadle::nodes.mark.of(x) != Py_None, waits(x)});
  }
  // Has the node described last waiting, though it has a value.
  void open() { fields.back().marked = false, fields.back().waits = true; }
};

// Visits the results without values of a node of several that somebody holds: a run that
// makes one makes all of them.
template <typename F>
void each_result(PyObject* node, F visit) {
  LivingResults* results = results_of(node);
  for (LivingResult* x = results ? results->first : nullptr; x; x = x->next)
    if (Py_REFCNT(x->node) > 0 && waits(x->node)) visit(x->node);  // none that is going
}

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

// How a graph looks: its nodes as a list, by place the references of others, the places
// that are held, and the key.
struct Looked {
  Ref nodes;
  std::vector<int64_t> others, held, key;

  PyObject* key_bytes() const {
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(key.data()),
                                     static_cast<Py_ssize_t>(key.size() * sizeof(int64_t)));
  }
};

// What a look is asked for (graph/look.py).
struct Asking {
  PyObject *roots, *own;
  Py_ssize_t asked, updates, most;
  bool whole, derived;
  long long ends = -1, parts = std::numeric_limits<long long>::max();
};

// Looks at a graph: 1, or 0 where there is more to its run; -1 where something was raised.
int look_at(const Asking& asking, Looked& into);
PyObject* list_of(const std::vector<int64_t>& numbers);

// Whether a list or a tuple has nodes alone; else an exception is set.
bool are_nodes(PyObject* roots);
// Shows the collector some nodes, and all that they are made of.
void show_below(const std::vector<PyObject*>& roots);
// A list of nodes, in an order; the walk may be used by others while it is made.
PyObject* listed(const std::vector<PyObject*>& found);

}  // namespace treadle
