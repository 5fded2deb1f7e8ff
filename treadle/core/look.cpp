// How a graph that is to run looks: its structure as a key (graph/look.py, which says
// what the numbers mean).
#include "walk.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace treadle {
namespace {

// What is known of the classes around nodes.
struct Known {
  PyTypeObject *op = nullptr, *type = nullptr, *variable = nullptr, *version = nullptr;
  PyTypeObject *update = nullptr, *cut = nullptr, *derivative = nullptr;
  PyTypeObject* row = nullptr;  // of a batched run
  PyTypeObject *tuple = nullptr, *resident = nullptr, *stand_in = nullptr;
  PyTypeObject* argument = nullptr;
  PyObject *constant = nullptr, *literal = nullptr;  // ops
  PyObject *number = nullptr, *number_of = nullptr;  // of a type, of an op
  Slot op_number, type_number, committed, frozen, trainable;
  PyObject *of, *results, *nested, *late, *carried, *trained, *closed, *program;  // names
  PyObject *tape, *kind, *read, *traits, *differentiable;
};
Known known;

PyObject* bind_look(PyObject*, PyObject* args) {
  Known k;
  PyObject* mark;
  if (!PyArg_ParseTuple(args, "O!O!O!O!O!O!O!O!O!O!OOOOO", &PyType_Type, &k.op, &PyType_Type,
                        &k.type, &PyType_Type, &k.variable, &PyType_Type, &k.version,
                        &PyType_Type, &k.update, &PyType_Type, &k.cut, &PyType_Type,
                        &k.tuple, &PyType_Type, &k.resident, &PyType_Type, &k.stand_in,
                        &PyType_Type, &k.argument, &k.constant, &k.literal, &k.number, &k.number_of, &mark))
    return nullptr;
  if (!k.op_number.find(reinterpret_cast<PyObject*>(k.op), "_number") ||
      !k.type_number.find(reinterpret_cast<PyObject*>(k.type), "_number") ||
      !k.committed.find(reinterpret_cast<PyObject*>(k.variable), "committed") ||
      !k.frozen.find(reinterpret_cast<PyObject*>(k.variable), "frozen") ||
      !k.trainable.find(reinterpret_cast<PyObject*>(k.variable), "_trainable"))
    return nullptr;
  k.of = PyUnicode_InternFromString("variable");
  k.results = PyUnicode_InternFromString("of");  // of a derivative: how many
  k.nested = PyUnicode_InternFromString("nested");
  k.late = PyUnicode_InternFromString("late");
  k.carried = PyUnicode_InternFromString("carried");
  k.trained = PyUnicode_InternFromString("trained");
  k.closed = PyUnicode_InternFromString("closed");
  k.program = PyUnicode_InternFromString("program");
  k.tape = PyUnicode_InternFromString("tape");
  k.kind = PyUnicode_InternFromString("kind");
  k.read = PyUnicode_InternFromString("read");
  k.traits = PyUnicode_InternFromString("traits");
  k.differentiable = PyUnicode_InternFromString("differentiable");
  for (void* x : {static_cast<void*>(k.op), static_cast<void*>(k.type),
                  static_cast<void*>(k.variable), static_cast<void*>(k.version),
                  static_cast<void*>(k.update), static_cast<void*>(k.cut),
                  static_cast<void*>(k.tuple),
                  static_cast<void*>(k.resident), static_cast<void*>(k.stand_in),
                  static_cast<void*>(k.argument), static_cast<void*>(k.constant),
                  static_cast<void*>(k.literal), static_cast<void*>(k.number),
                  static_cast<void*>(k.number_of), static_cast<void*>(mark)})
    Py_INCREF(static_cast<PyObject*>(x));
  k.derivative = known.derivative, k.row = known.row;
  known = k;
  part = mark;
  Py_RETURN_NONE;
}

PyObject* bind_derivative(PyObject*, PyObject* kind) {
  if (!PyType_Check(kind)) return PyErr_BadArgument(), nullptr;
  known.derivative = reinterpret_cast<PyTypeObject*>(Py_NewRef(kind));
  Py_RETURN_NONE;
}

PyObject* bind_row(PyObject*, PyObject* kind) {
  if (!PyType_Check(kind)) return PyErr_BadArgument(), nullptr;
  known.row = reinterpret_cast<PyTypeObject*>(Py_NewRef(kind));
  Py_RETURN_NONE;
}

// What begins the words of a node, beside a number (graph/look.py).
enum Code { waiting, open, update, literal, data, carrying, fixed, trained, value,
            carrying_value, own, constant, older, argument };
constexpr int64_t codes = 16;

// A number that only Python knows: of an op or a type.
struct Asked {
  size_t word;
  Ref of;
};

enum class Result { looked, otherwise, failed };

bool is_carried(PyObject* mark) {
  if (!PyDict_Check(mark)) return false;
  PyObject* told = PyDict_GetItemWithError(mark, known.carried);
  return told == Py_True;
}

// Whether no more is known of how a node with a value was made than its recipe.
bool can_be_derived(PyObject* mark) {
  if (!PyDict_Check(mark)) return true;
  Py_ssize_t at = 0;
  PyObject *name, *told;
  while (PyDict_Next(mark, &at, &name, &told))
    if (PyUnicode_Compare(name, known.carried) && PyUnicode_Compare(name, known.program))
      return false;
  return true;
}

class Looker {
 public:
  static constexpr size_t room = 128;  // numbers of a small graph
  Looker(PyObject* own, bool whole, bool derived, int64_t floor, int64_t parts,
         int64_t ends)
      : own_(own), whole_(whole), derived_(derived), floor_(floor), parts_(parts),
        ends_(ends) {
    for (auto* numbers : {&words, &others}) numbers->reserve(room);
    followed.reserve(room), ages.reserve(room);
  }

  // Reads the whole graph, during which no Python runs.
  Result read(Walk& w, PyObject* roots, size_t asked, size_t first_update, size_t most) {
    const auto given = static_cast<size_t>(PySequence_Fast_GET_SIZE(roots));
    for (size_t k = 0; k < given; k++)
      w.nodes.of(PySequence_Fast_GET_ITEM(roots, static_cast<Py_ssize_t>(k)));
    if (w.nodes.size() < given) return Result::otherwise;  // one is asked for twice
    others.assign(given, -1);                               // the list of roots
    size_t updates = 0;
    bool refused = false;
    for (size_t k = 0; k < w.nodes.size(); k++) {
      if (k >= most) return Result::otherwise;
      PyObject* x = w.nodes[k];
      others[k] += Py_REFCNT(x);
      PyObject* inputs = nodes.inputs.of(x);
      const bool waits = treadle::waits(x);
      PyObject* mark = nodes.mark.of(x);
      const int64_t serial = number(nodes.serial.of(x));
      const bool root = k < asked || (k >= first_update && k < given);
      if (waits && serial <= ends_ && !root) {  // what it is made of leads to no target
        refused |= Py_TYPE(nodes.type.of(x)) != known.type;
        if (!refused) put(value, known.type_number, nodes.type.of(x));
        continue;
      }
      if (waits && ends_ >= 0 && Py_TYPE(nodes.op.of(x)) == known.argument) {
        if (Py_TYPE(nodes.type.of(x)) != known.type) return Result::otherwise;
        put(argument, known.type_number, nodes.type.of(x));
        continue;
      }
      bool opens = !waits && whole_ && PyTuple_GET_SIZE(inputs) && serial > floor_;
      if (opens && mark == part && serial <= parts_) {
        opens = false;
        newest_part = std::max(newest_part, serial);
      }
      const bool marked = mark != Py_None && mark != scopes.mark;
      if (waits ? marked || !PyTuple_GET_SIZE(inputs)
                : opens && !can_be_derived(mark))
        return Result::otherwise;
      if (!waits && whole_ && ends_ < 0 && serial > floor_) {
        const Result result = read_row(w, x);  // otherwise: it is none
        if (result == Result::failed) return result;
        if (result == Result::looked) {
          ages.push_back({serial, static_cast<int64_t>(k)});
          continue;
        }
      }
      if (!waits && !opens) {
        const Result result = read_leaf(x, k);
        if (result == Result::failed) return result;
        refused |= result == Result::otherwise;  // unless one goes on behind it
        continue;
      }
      Result result = read_op(x, waits, updates);
      if (result != Result::looked) return result;
      ages.push_back({serial, static_cast<int64_t>(k)});
      followed.push_back(k);
      for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(inputs); j++) {
        const int64_t place = w.nodes.of(PyTuple_GET_ITEM(inputs, j));
        if (w.nodes.size() > others.size()) others.push_back(0);
        others[static_cast<size_t>(place)]--;
        words.push_back(place);
      }
      each_result(x, [&](PyObject* result) {
        w.nodes.of(result);
        if (w.nodes.size() > others.size()) others.push_back(0);
      });
    }
    oldest = oldest_;
    // By what the run of rows took for data a derivative does not go through its tape.
    if (refused || (through_rows_ && by_data_)) return Result::otherwise;
    if (!lost.empty()) {
      const Result result = check_lost(w, given);
      if (result != Result::looked) return result;
    }
    // What was assigned is all of it, and nothing but the frame refers to it: twice to the
    // newest of a Variable, once to those that this is made of.
    if (updates != given - first_update) return Result::otherwise;
    std::vector<bool> older(given);
    for (size_t k = first_update; k < given; k++) {
      PyObject* inputs = nodes.inputs.of(w.nodes[k]);
      if (!PyTuple_GET_SIZE(inputs)) return Result::otherwise;  // carried out since listed
      const auto base = static_cast<size_t>(w.nodes.of(PyTuple_GET_ITEM(inputs, 0)));
      if (base < given) older[base] = true;
    }
    for (size_t k = first_update; k < given; k++)
      if (others[k] != (older[k] ? 1 : 2)) return Result::otherwise;
    for (size_t k = given; k < w.nodes.size(); k++)
      if (treadle::waits(w.nodes[k]) && others[k] > 0)
        held.push_back(static_cast<int64_t>(k));
    return Result::looked;
  }

  // What is lost to a derivative may lead only to nodes that end it.
  Result check_lost(Walk& w, size_t given) {
    std::vector<bool> reached(w.nodes.size());
    for (int64_t k : lost) reached[static_cast<size_t>(k)] = true;
    std::vector<std::pair<int64_t, size_t>> order;  // as they were made
    for (size_t k : followed) order.push_back({number(nodes.serial.of(w.nodes[k])), k});
    std::sort(order.begin(), order.end());
    for (const auto& [serial, k] : order) {
      PyObject* inputs = nodes.inputs.of(w.nodes[k]);
      bool reads = false;
      for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(inputs) && !reads; j++)
        reads = reached[static_cast<size_t>(w.nodes.of(PyTuple_GET_ITEM(inputs, j)))];
      if (!reads || nodes.mark.of(w.nodes[k]) == scopes.mark) continue;
      Ref traits(PyObject_GetAttr(nodes.op.of(w.nodes[k]), known.traits));
      Ref told(traits ? PyObject_GetAttr(traits.get(), known.differentiable) : nullptr);
      if (!told) return Result::failed;
      reached[k] = told.get() != Py_False;
    }
    for (size_t k = 0; k < given; k++)
      if (reached[k]) return Result::otherwise;
    return Result::looked;
  }

  // Whether a derivative is to be computed through rows that were to run with it.
  bool computes_late(Walk& w) {
    for (size_t k : followed) {
      if (!treadle::waits(w.nodes[k])) continue;
      PyObject* inputs = nodes.inputs.of(w.nodes[k]);
      if (!PyTuple_GET_SIZE(inputs)) continue;
      PyObject* op = nodes.op.of(PyTuple_GET_ITEM(inputs, 0));
      if (Py_TYPE(op) != known.derivative) continue;
      Ref told(PyObject_GetAttr(op, known.late));
      if (!told || told.get() == Py_True) return true;
    }
    return false;
  }

  // Who holds another result of a node of several will compute it from its operands.
  void leave_operands(Walk& w) {
    std::vector<int64_t> stay, rest;
    for (int64_t k : held) {
      PyObject* type = nodes.type.of(w.nodes[static_cast<size_t>(k)]);
      (PyObject_TypeCheck(type, known.tuple) ? stay : rest).push_back(k);
    }
    if (stay.empty()) return;
    held.swap(rest);
    std::vector<bool> seen(w.nodes.size());
    for (int64_t k : stay) seen[static_cast<size_t>(k)] = true;
    for (size_t k = 0; k < stay.size(); k++) {
      PyObject* x = w.nodes[static_cast<size_t>(stay[k])];
      if (!treadle::waits(x)) continue;
      PyObject* inputs = nodes.inputs.of(x);
      for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(inputs); j++) {
        const int64_t place = w.nodes.of(PyTuple_GET_ITEM(inputs, j));
        others[static_cast<size_t>(place)]++;
        if (seen[static_cast<size_t>(place)]) continue;
        seen[static_cast<size_t>(place)] = true;
        stay.push_back(place);
      }
    }
  }

  // Has Python tell what is not known yet; false where it raised.
  bool ask() {
    for (Asked& x : unknown) {
      Ref told(PyObject_CallOneArg(
          PyObject_TypeCheck(x.of.get(), known.op) ? known.number_of : known.number,
          x.of.get()));
      if (!told) return false;
      words[x.word] += codes * number(told.get());
      if (PyErr_Occurred()) return false;
    }
    return true;
  }

  std::vector<int64_t> words, others, held;
  std::vector<int64_t> lost;     // leaves that are no constants for a derivative
  std::vector<size_t> followed;  // what reads others
  std::vector<std::pair<int64_t, int64_t>> ages;  // serials, and places
  std::vector<Asked> unknown;
  bool derives = false;  // a derivative is yet to be written out
  bool goes_on = false;  // through others, behind whose results it looks, too
  bool reads_rows = false;  // that have run, with a tape
  int64_t newest_part = -1;  // of the parts of data that were not looked behind
  int64_t oldest = -1;       // of the nodes that are derived by; known at the end
  int64_t oldest_data = std::numeric_limits<int64_t>::max();  // that is or lies in data

 private:
  // A word of a code and the number in a slot, which Python tells where that is empty.
  void put(Code code, const Slot& slot, PyObject* x) {
    PyObject* told = slot.of(x);
    if (!told) unknown.push_back({words.size(), Ref::to(x)});
    words.push_back(code + (told ? codes * number(told) : 0));
  }

  Result read_op(PyObject* x, bool waits, size_t& updates) {
    PyObject* op = nodes.op.of(x);
    if (Py_TYPE(op) == known.derivative && !read_targets(x, op)) return Result::failed;
    if (Py_TYPE(op) != known.update) {
      const Code own = !waits ? open : nodes.mark.of(x) == Py_None ? waiting : constant;
      put(own, known.op_number, op);
      return Result::looked;
    }
    updates++;
    Ref variable(PyObject_GetAttr(op, known.of));
    Ref id(variable ? PyLong_FromVoidPtr(variable.get()) : nullptr);
    if (!id) return Result::failed;
    PyObject* numbers = PyDict_GetItemWithError(own_, id.get());
    if (!numbers) return PyErr_Occurred() ? Result::failed : Result::otherwise;
    if (!PyTuple_Check(numbers) || PyTuple_GET_SIZE(numbers) != 2)
      return PyErr_BadArgument(), Result::failed;
    words.push_back(update + codes * number(PyTuple_GET_ITEM(numbers, 0)));
    return Result::looked;
  }

  // The nodes that a derivative is taken by: its last operands.
  bool read_targets(PyObject* x, PyObject* op) {
    derives = true;
    Ref results(PyObject_GetAttr(op, known.results));
    Ref nested(PyObject_GetAttr(op, known.nested));
    const int64_t first = results ? 2 * number(results.get()) : -1;
    if (first < 0 || !nested) return false;
    goes_on |= nested.get() == Py_True;
    PyObject* inputs = nodes.inputs.of(x);
    for (Py_ssize_t j = first; j < PyTuple_GET_SIZE(inputs); j++) {
      PyObject* target = PyTuple_GET_ITEM(inputs, j);
      const int64_t serial = number(nodes.serial.of(target));
      oldest_ = std::min(oldest_, serial);
      const auto* leaf = Py_TYPE(nodes.op.of(target));
      by_data_ |= leaf != known.version && leaf != known.row;
      if (nodes.op.of(target) == known.constant || nodes.mark.of(target) == part)
        oldest_data = std::min(oldest_data, serial);
    }
    return true;
  }

  // A row of a run that looks like others of its kind: a derivative goes on behind it,
  // to what the run has read.
  Result read_row(Walk& w, PyObject* x) {
    PyObject* op = nodes.op.of(x);
    if (Py_TYPE(op) != known.row) return Result::otherwise;
    Ref tape(PyObject_GetAttr(op, known.tape));
    if (!tape) return Result::failed;
    if (tape.get() == Py_None) return Result::otherwise;
    Ref kind(PyObject_GetAttr(tape.get(), known.kind));
    Ref read(PyObject_GetAttr(tape.get(), known.read));
    if (!kind || !read) return Result::failed;
    if (kind.get() == Py_None) return Result::otherwise;
    if (!PyList_Check(read.get()) || !are_nodes(read.get()))
      return PyErr_BadArgument(), Result::failed;
    put(open, known.op_number, op);
    put(value, known.type_number, nodes.type.of(x));
    const auto run = std::find(runs_.begin(), runs_.end(), tape.get());
    words.push_back(run - runs_.begin());
    if (run == runs_.end()) runs_.push_back(tape.get());
    for (Py_ssize_t j = 0; j < PyList_GET_SIZE(read.get()); j++) {
      words.push_back(w.nodes.of(PyList_GET_ITEM(read.get(), j)));
      if (w.nodes.size() > others.size()) others.push_back(0);
    }
    through_rows_ = true;
    return Result::looked;
  }

  // A node with a value.
  Result read_leaf(PyObject* x, size_t k) {
    PyObject *op = nodes.op.of(x), *type = nodes.type.of(x);
    PyObject* stored = nodes.stored.of(x);
    const bool array = PyArray_Check(stored);
    if (Py_TYPE(type) != known.type || !(array || is_resident(stored)))
      return Result::otherwise;
    if (array && op == known.constant)
      put(data, known.type_number, type);
    else if (array && op == known.literal)
      put_literal(array_of(stored), type);
    else if (Py_TYPE(op) == known.version)
      return read_version(x, op, type, k);
    else if (PyTuple_GET_SIZE(nodes.inputs.of(x)))  // it is read as it is
      put(is_carried(nodes.mark.of(x)) ? carrying_value : value, known.type_number, type);
    else
      return read_cut(x, op, type, k);
    return Result::looked;
  }

  void put_literal(PyArrayObject* array, PyObject* type) {
    put(literal, known.type_number, type);
    const auto bytes = static_cast<size_t>(PyArray_NBYTES(array));
    const size_t first = words.size();
    words.resize(first + (bytes + 7) / 8, 0);
    std::memcpy(words.data() + first, PyArray_DATA(array), bytes);
  }

  Result read_version(PyObject* x, PyObject* op, PyObject* type, size_t k) {
    Ref variable(PyObject_GetAttr(op, known.of));
    if (!variable) return Result::failed;
    if (known.frozen.of(variable.get()) != Py_None) return Result::otherwise;
    Ref id(PyLong_FromVoidPtr(variable.get()));
    if (!id) return Result::failed;
    PyObject* numbers = PyDict_GetItemWithError(own_, id.get());
    if (!numbers && PyErr_Occurred()) return Result::failed;
    ages.push_back({number(nodes.serial.of(x)), static_cast<int64_t>(k)});
    const bool trains = known.trainable.of(variable.get()) == Py_True;
    if (!numbers)
      put(trains ? trained : fixed, known.type_number, type);
    else if (PyTuple_Check(numbers) && PyTuple_GET_SIZE(numbers) == 2)
      words.push_back((known.committed.of(variable.get()) == x ? own : older) +
                      codes * number(PyTuple_GET_ITEM(numbers, trains ? 0 : 1)));
    else
      return PyErr_BadArgument(), Result::failed;
    return Result::looked;
  }

  Result read_cut(PyObject* x, PyObject* op, PyObject* type, size_t k) {
    bool carried = false, gone = false;
    if (Py_TYPE(op) == known.row) {
      Ref tape(PyObject_GetAttr(op, known.tape));
      if (!tape) return Result::failed;
      const bool taped = tape.get() != Py_None;
      if (taped && derived_) return Result::otherwise;  // there is more behind it
      reads_rows |= taped && number(nodes.serial.of(x)) > ends_;
      put(taped ? carrying : data, known.type_number, type);
      return Result::looked;
    }
    if (Py_TYPE(op) == known.cut) {
      Ref told(PyObject_GetAttr(op, known.carried));
      if (!told) return Result::failed;
      carried = told.get() == Py_True;
      // What a step let go of may have been made of what a derivative is by.
      Ref trained(PyObject_GetAttr(op, known.trained));
      if (!trained) return Result::failed;
      gone = !carried && ends_ >= 0 && trained.get() != Py_None;
    }
    // Of the class: a property would run Python.
    Ref closed(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(op)), known.closed));
    if (!closed) return Result::failed;
    const bool open = closed.get() != Py_True || ((carried || gone) && derived_);
    if (open && number(nodes.serial.of(x)) > ends_)
      lost.push_back(static_cast<int64_t>(k));
    put(carried ? carrying : data, known.type_number, type);
    return Result::looked;
  }

  // Whether a value lies in an engine's memory; not what a run under way stands in for.
  static bool is_resident(PyObject* x) {
    return PyObject_TypeCheck(x, known.resident) && Py_TYPE(x) != known.stand_in;
  }

  PyObject* own_;
  bool whole_, derived_, through_rows_ = false, by_data_ = false;
  std::vector<PyObject*> runs_;  // the tapes of rows that it goes on behind
  int64_t floor_, parts_, ends_, oldest_ = std::numeric_limits<int64_t>::max();
};

// (roots, asked, updates, own, whole, derived, most, ends=-1, parts=...)
PyObject* look(PyObject*, PyObject* args) {
  Asking x;
  int whole, derived;
  if (!PyArg_ParseTuple(args, "O!nnO!ppn|LL", &PyList_Type, &x.roots, &x.asked, &x.updates,
                        &PyDict_Type, &x.own, &whole, &derived, &x.most, &x.ends, &x.parts))
    return nullptr;
  x.whole = whole, x.derived = derived;
  Looked seen;
  const int found = look_at(x, seen);
  if (found < 0) return nullptr;
  if (!found) Py_RETURN_NONE;
  return Py_BuildValue("NNNN", seen.nodes.release(), list_of(seen.others),
                       list_of(seen.held), seen.key_bytes());
}

}  // namespace

PyObject* list_of(const std::vector<int64_t>& numbers) {
  Ref made(PyList_New(static_cast<Py_ssize_t>(numbers.size())));
  for (size_t k = 0; made && k < numbers.size(); k++) {
    PyObject* x = PyLong_FromLongLong(numbers[k]);
    if (!x) return nullptr;
    PyList_SET_ITEM(made.get(), static_cast<Py_ssize_t>(k), x);
  }
  return made.release();
}

bool leads_behind(PyObject* mark) { return is_carried(mark) && can_be_derived(mark); }

int look_at(const Asking& asking, Looked& into) {
  if (!are_nodes(asking.roots)) return -1;
  const Py_ssize_t count = PyList_GET_SIZE(asking.roots), asked = asking.asked;
  long long ends = asking.ends, parts = asking.parts;
  bool whole = asking.whole;
  int64_t floor = ends;
  for (;;) {
    Looker looker(asking.own, whole, asking.derived, floor, parts, ends);
    {
      Lease w;
      const Result result = looker.read(*w, asking.roots, static_cast<size_t>(asked),
                                        static_cast<size_t>(count - asking.updates),
                                        static_cast<size_t>(asking.most));
      if (result == Result::failed) return -1;
      // Derivatives go on behind values, and behind parts of data if they are by such.
      const bool through = looker.newest_part > looker.oldest_data;
      const bool below = looker.oldest < floor && (looker.goes_on || ends >= 0);
      if (looker.derives && (!whole || through || below)) {
        if (!whole || below) floor = looker.oldest;  // older nodes lead to no target
        ends = std::min<long long>(ends, looker.oldest);
        whole = true;
        parts = std::min<long long>(parts, looker.oldest_data);
        continue;
      }
      const bool late = looker.derives && looker.reads_rows && looker.computes_late(*w);
      if (PyErr_Occurred()) return -1;
      if (result == Result::otherwise || late) return 0;
      looker.leave_operands(*w);
      into.nodes = Ref(listed(w->nodes.all()));
    }
    if (!into.nodes || !looker.ask()) return -1;
    // Cotangents are summed, and parameters listed, in the order of their making.
    std::sort(looker.ages.begin(), looker.ages.end());
    into.key = {asked, count - asked - asking.updates, asking.updates,
                static_cast<int64_t>(looker.others.size()),
                static_cast<int64_t>(looker.held.size())};
    into.key.insert(into.key.end(), looker.words.begin(), looker.words.end());
    into.key.insert(into.key.end(), looker.held.begin(), looker.held.end());
    for (auto& age : looker.ages) into.key.push_back(age.second);
    into.others.swap(looker.others);
    into.held.swap(looker.held);
    return 1;
  }
}

PyMethodDef look_functions[] = {
    {"bind_look", bind_look, METH_VARARGS, "bind_look(...): as graph/look.py calls it."},
    {"bind_derivative", bind_derivative, METH_O, "bind_derivative(Derivative)"},
    {"bind_row", bind_row, METH_O, "bind_row(Row)"},
    {"look", look, METH_VARARGS,
     "look(roots, asked, updates, own, whole, derived, most, ends=-1, parts=...): nodes, "
     "references of others, places that are held, and the key; or None."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace treadle
