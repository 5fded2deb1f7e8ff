// Calls that are not run by Python: those whose nodes a plan tells (graph/calls.py), and
// of what has notes of its own (graph/noted.py). All others are left to Python.
#include "walk.hpp"

#include <cstring>
#include <memory>
#include <vector>

namespace treadle {
namespace {

// How an argument is told, and where something was seen (graph/calls.py).
enum Told : int64_t { OTHER, TENSOR, TUPLE, LIST, NUMBER, SAME, WHOLE, NAMED,
                      DTYPE, WRITTEN, WRITTEN_FLOAT, SCALAR, ARRAY, CLASS,
                      VARIABLE, SLICE, BOUND };
// What is a leaf; of parts none is, and only ranges are told.
enum Data : int { AS_ROWS = 1, AS_SCALARS = 2, AS_FLOATS = 3, AS_PARTS = 4 };
enum Where : long { ATTRIBUTE, ITEM, MODE, STAMP, CONTENT, ABSENT, KEYS, PARTS };
constexpr size_t LONGEST = 64;  // numbers of a signature
constexpr size_t FORMAT = 7;    // letters of the format of an array

// What calls need of the graph.
struct Graph {
  PyObject *item, *library, *capture, *watchers, *holding, *integers, *integer, *scalar,
      *constant, *whole, *plumbing, *provided, *passing, *changes, *written, *written_at,
      *dtypes, *type, *copied, *variable, *taken;
  Slot now, seen, committed;
};
Graph graph;

bool is_variable(PyObject* x) {
  return PyObject_TypeCheck(x, reinterpret_cast<PyTypeObject*>(graph.variable)) != 0;
}

// Frees an object of one of the types here, whose members are cleared first.
template <int (*clear)(PyObject*)>
void freed(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* interned(const char* name) { return PyUnicode_InternFromString(name); }

// -- guards ----------------------------------------------------------------------------

enum Answer { NO, YES, RAISED };

Answer says(PyObject* what) {
  Ref said(PyObject_CallNoArgs(what));
  if (!said) return RAISED;
  return said.get() == Py_True ? YES : NO;
}

// Something that was seen, and where (graph/calls.py).
struct Seen {
  long where;
  PyObject *owner, *name, *value;
};

// What an array holds, in the order of its indices.
struct Content {
  Py_buffer view = {};
  std::vector<char> copied;  // where its memory has another order

  explicit Content(PyObject* array) {
    if (PyObject_GetBuffer(array, &view, PyBUF_FULL_RO) < 0) return;
    if (PyBuffer_IsContiguous(&view, 'C')) return;
    copied.resize(static_cast<size_t>(view.len));
    PyBuffer_ToContiguous(copied.data(), &view, view.len, 'C');
  }
  ~Content() { PyBuffer_Release(&view); }
  Content(const Content&) = delete;
  Content& operator=(const Content&) = delete;

  const void* bytes() const { return copied.empty() ? view.buf : copied.data(); }
  bool is(const Content& other) const {
    const Py_buffer &x = view, &y = other.view;
    if (!x.obj || !y.obj || x.ndim != y.ndim || x.len != y.len) return false;
    return std::equal(x.shape, x.shape + x.ndim, y.shape) &&
           !std::strcmp(x.format, y.format) &&
           !std::memcmp(bytes(), other.bytes(), static_cast<size_t>(x.len));
  }
};

// Whether a dict has these keys, in order: strings of user's code, which are interned.
Answer has_keys(PyObject* dict, PyObject* keys) {
  if (PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) return NO;
  PyObject *key, *value;
  for (Py_ssize_t at = 0, k = 0; PyDict_Next(dict, &at, &key, &value); k++) {
    PyObject* known = PyTuple_GET_ITEM(keys, k);
    if (key == known) continue;
    if (!PyUnicode_CheckExact(key) || PyUnicode_Compare(key, known)) return NO;
  }
  return YES;
}

// Whether a list has these very items.
Answer has_parts(PyObject* list, PyObject* items) {
  if (PyList_GET_SIZE(list) != PyTuple_GET_SIZE(items)) return NO;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(items); k++)
    if (PyList_GET_ITEM(list, k) != PyTuple_GET_ITEM(items, k)) return NO;
  return YES;
}

Answer is_there(const Seen& s) {
  Ref found;
  switch (s.where) {
    case KEYS:
      return has_keys(s.owner, s.value);
    case PARTS:
      return has_parts(s.owner, s.value);
    case CONTENT: {
      const Content now(s.owner), before(s.value);
      PyErr_Clear();  // memory that nobody can read is no longer there
      return now.is(before) ? YES : NO;
    }
    case STAMP:
      if (graph.now.of(graph.changes) == graph.seen.of(s.owner)) return YES;
      return says(s.owner);
    case ITEM:
      found = Ref::to(PyDict_GetItemWithError(s.owner, s.name));
      break;
    case ABSENT: {
      const int there = PyDict_Contains(s.owner, s.name);
      return there < 0 ? RAISED : there ? NO : YES;
    }
    case MODE: {
      PyObject* modes = nullptr;
      if (PyContextVar_Get(s.owner, nullptr, &modes) < 0) return RAISED;
      Ref held(modes);
      if (held) found = Ref(PyObject_GetAttr(modes, s.name));
      break;
    }
    default:
      found = PyCell_Check(s.owner) ? Ref(PyCell_Get(s.owner))
                                    : Ref(PyObject_GetAttr(s.owner, s.name));
  }
  if (!found) PyErr_Clear();  // nothing is there
  return found.get() == s.value ? YES : NO;
}

// What tells whether all that was seen is there, and what else is asked of Python.
struct GuardObject {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  std::vector<Seen>* seen;
  PyObject* more;
};

int guard_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* own = reinterpret_cast<GuardObject*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(own->more);
  if (own->seen)
    for (const Seen& s : *own->seen) {
      Py_VISIT(s.owner);
      Py_VISIT(s.name);
      Py_VISIT(s.value);
    }
  return 0;
}

int guard_clear(PyObject* self) {
  auto* own = reinterpret_cast<GuardObject*>(self);
  // Finalizers may come here again: nothing was seen then.
  std::unique_ptr<std::vector<Seen>> seen(std::exchange(own->seen, nullptr));
  if (seen)
    for (Seen& s : *seen) Py_DECREF(s.owner), Py_DECREF(s.name), Py_DECREF(s.value);
  Py_CLEAR(own->more);
  return 0;
}

PyObject* guard_call(PyObject* self, PyObject* const*, size_t, PyObject*) {
  Ref alive = Ref::to(self);
  auto* own = reinterpret_cast<GuardObject*>(self);
  for (size_t k = 0; own->seen && k < own->seen->size(); k++) {
    const Answer answer = is_there((*own->seen)[k]);
    if (answer != YES) return answer == NO ? Py_NewRef(Py_False) : nullptr;
  }
  if (!own->seen) return Py_NewRef(Py_False);
  return own->more ? PyObject_CallNoArgs(own->more) : Py_NewRef(Py_True);
}

PyMemberDef guard_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(GuardObject, vectorcall), READONLY,
     nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyType_Slot guard_slots[] = {
    {Py_tp_doc, const_cast<char*>("Whether all that was seen is there.")},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_members, guard_members},
    {Py_tp_traverse, reinterpret_cast<void*>(guard_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(guard_clear)},
    {Py_tp_dealloc, reinterpret_cast<void*>(freed<guard_clear>)},
    {0, nullptr}};
PyType_Spec guard_spec = {"treadle.core.native.Guard", sizeof(GuardObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                              Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                          guard_slots};
PyTypeObject* guard_type;

PyObject* guard(PyObject*, PyObject* args) {
  PyObject *every, *more;
  if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &every, &more)) return nullptr;
  Ref made(guard_type->tp_alloc(guard_type, 0));
  if (!made) return nullptr;
  auto* own = reinterpret_cast<GuardObject*>(made.get());
  own->vectorcall = guard_call;
  own->seen = new std::vector<Seen>;
  own->more = more == Py_None ? nullptr : Py_NewRef(more);
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(every); k++) {
    Seen s;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(every, k), "lOOO", &s.where, &s.owner, &s.name,
                          &s.value))
      return nullptr;
    Py_INCREF(s.owner), Py_INCREF(s.name), Py_INCREF(s.value);
    own->seen->push_back(s);
  }
  return made.release();
}

// -- plans -----------------------------------------------------------------------------

struct Step {
  PyObject *op, *type;
  bool closed;
  std::vector<size_t> places;
};

// An argument that becomes a leaf: an int, or a number or an array of a type.
struct Datum {
  size_t place;
  PyObject* type;
};

// A Plan of graph/calls.py, as it is followed.
struct Written {
  size_t given = 0;
  int64_t form = OTHER;
  std::vector<PyObject*> variables;  // or the number of an argument that is one
  std::vector<PyObject*> captured;
  std::vector<PyObject*> leaves;  // made anew, of the same values
  std::vector<Step> steps;
  std::vector<size_t> results;
  std::vector<Datum> data;
  PyObject *holds = nullptr, *things = nullptr, *run = nullptr;

  size_t size() const {
    return given + variables.size() + captured.size() + leaves.size() + steps.size();
  }
  template <typename F>
  void each(F f) {
    for (auto* list : {&variables, &captured, &leaves})
      for (PyObject*& x : *list) f(x);
    for (Step& step : steps) f(step.op), f(step.type);
    for (Datum& x : data) f(x.type);
    f(holds), f(things), f(run);
  }
};

struct PlanObject {
  PyObject_HEAD
  Written* plan;
};

int plan_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Written* plan = reinterpret_cast<PlanObject*>(self)->plan;
  int answer = 0;
  if (plan)
    plan->each([&](PyObject*& x) {
      if (x && !answer) answer = visit(x, arg);
    });
  return answer;
}

int plan_clear(PyObject* self) {
  // Finalizers may come here again: there is no plan then.
  std::unique_ptr<Written> plan(
      std::exchange(reinterpret_cast<PlanObject*>(self)->plan, nullptr));
  if (plan) plan->each([](PyObject*& x) { Py_CLEAR(x); });
  return 0;
}

PyType_Slot plan_slots[] = {{Py_tp_doc, const_cast<char*>("A plan, as it is followed.")},
                            {Py_tp_traverse, reinterpret_cast<void*>(plan_traverse)},
                            {Py_tp_clear, reinterpret_cast<void*>(plan_clear)},
                            {Py_tp_dealloc, reinterpret_cast<void*>(freed<plan_clear>)},
                            {0, nullptr}};
PyType_Spec plan_spec = {"treadle.core.native.Plan", sizeof(PlanObject), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                             Py_TPFLAGS_DISALLOW_INSTANTIATION,
                         plan_slots};
PyTypeObject* plan_type;

bool read_places(PyObject* tuple, std::vector<size_t>& places) {
  Ref every(PySequence_Fast(tuple, "places are a tuple"));
  if (!every) return false;
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(every.get()); k++) {
    size_t place = PyLong_AsSize_t(PySequence_Fast_GET_ITEM(every.get(), k));
    if (PyErr_Occurred()) return false;
    places.push_back(place);
  }
  return true;
}

bool read_things(PyObject* tuple, std::vector<PyObject*>& things) {
  Ref every(PySequence_Fast(tuple, "things are a tuple"));
  if (!every) return false;
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(every.get()); k++)
    things.push_back(Py_NewRef(PySequence_Fast_GET_ITEM(every.get(), k)));
  return true;
}

bool read_steps(PyObject* tuple, Written& plan) {
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); k++) {
    PyObject *op, *places, *type;
    int closed;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(tuple, k), "OOOp", &op, &places, &type,
                          &closed))
      return false;
    plan.steps.push_back({Py_NewRef(op), Py_NewRef(type), closed != 0, {}});
    if (!read_places(places, plan.steps.back().places)) return false;
  }
  return true;
}

bool read_data(PyObject* tuple, Written& plan) {
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); k++) {
    Py_ssize_t place;
    PyObject* type;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(tuple, k), "nO", &place, &type)) return false;
    plan.data.push_back({static_cast<size_t>(place), Py_NewRef(type)});
  }
  return true;
}

// Whether each place is of a value that is there by then.
bool is_sound(const Written& plan) {
  size_t there = plan.size() - plan.steps.size();
  for (const Step& step : plan.steps) {
    for (size_t place : step.places)
      if (place >= there) return false;
    there++;
  }
  for (size_t place : plan.results)
    if (place >= there) return false;
  for (PyObject* x : plan.leaves)
    if (Py_TYPE(x) != nodes.kind) return false;
  for (const Datum& x : plan.data)
    if (x.place >= plan.given) return false;
  for (PyObject* x : plan.variables)
    if (PyLong_CheckExact(x) && PyLong_AsSize_t(x) >= plan.given) return false;
  const bool formed = plan.form == TUPLE || plan.form == LIST;
  return (plan.run || formed || !plan.results.empty()) && plan.size() <= LONGEST;
}

PyObject* plan(PyObject*, PyObject* args) {
  Ref made(plan_type->tp_alloc(plan_type, 0));
  if (!made) return nullptr;
  auto* own = reinterpret_cast<PlanObject*>(made.get())->plan = new Written;
  PyObject *variables, *captured, *leaves, *steps, *results, *data, *holds, *things, *run;
  Py_ssize_t given;
  long long form;
  if (!PyArg_ParseTuple(args, "nOOOO!LOO!OOO", &given, &variables, &captured,
                        &leaves, &PyTuple_Type, &steps, &form, &results, &PyTuple_Type, &data,
                        &holds, &things, &run))
    return nullptr;
  own->given = static_cast<size_t>(given);
  own->form = form;
  own->holds = holds == Py_None ? nullptr : Py_NewRef(holds);
  own->things = Py_NewRef(things);
  own->run = run == Py_None ? nullptr : Py_NewRef(run);
  if (!read_things(variables, own->variables) || !read_things(captured, own->captured) ||
      !read_things(leaves, own->leaves) ||
      !read_steps(steps, *own) || !read_places(results, own->results) ||
      !read_data(data, *own))
    return nullptr;
  if (!is_sound(*own)) {
    PyErr_SetString(PyExc_ValueError, "a plan reads what is not there");
    return nullptr;
  }
  return made.release();
}

// -- signatures ------------------------------------------------------------------------

// Whether a number of Python's is whole or a half, and no more than 8.
bool is_small(PyObject* x) {
  if (PyFloat_CheckExact(x)) {
    const double value = PyFloat_AS_DOUBLE(x);
    return value >= -8 && value <= 8 && 2 * value == static_cast<int>(2 * value);
  }
  int large;
  const long value = PyLong_AsLongAndOverflow(x, &large);
  return !large && value >= -8 && value <= 8;
}

bool is_among(PyObject* x, PyObject* constants) {
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(constants); k++) {
    PyObject* y = PyTuple_GET_ITEM(constants, k);
    if (Py_TYPE(y) != Py_TYPE(x)) continue;
    if (PyFloat_CheckExact(x) ? PyFloat_AS_DOUBLE(x) == PyFloat_AS_DOUBLE(y)
                              : PyLong_AsLong(x) == PyLong_AsLong(y))
      return true;
    if (PyErr_Occurred()) PyErr_Clear();  // it is a larger one
  }
  return false;
}

enum class Next { outward, done };

// Goes outward through the frames from the innermost on, until `visit` is done; whether
// it was. A file that was never asked for ends it.
template <typename F>
bool through_frames(F visit) {
  static PyObject* const filename = interned("co_filename");
  Ref frame = Ref::to(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* own = reinterpret_cast<PyFrameObject*>(frame.get());
    Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(own)));
    Ref file(PyObject_GetAttr(code.get(), filename));
    PyObject* ours = file ? PyDict_GetItemWithError(graph.library, file.get()) : nullptr;
    if (ours != Py_True && ours != Py_False) return false;
    if (visit(own, code, ours == Py_True) == Next::done) return true;
    frame = Ref(reinterpret_cast<PyObject*>(PyFrame_GetBack(own)));
  }
  return false;
}

// Whether a function of the library only hands a number on (graph/origin.py).
Answer hands_on(PyObject* code) {
  static PyObject* const known_as = interned("co_name");
  Ref name(PyObject_GetAttr(code, known_as));
  const char* text = name ? PyUnicode_AsUTF8(name.get()) : nullptr;
  if (!text) return RAISED;
  if (text[0] == '_' && text[1] == '_') return YES;
  for (PyObject* names : {graph.plumbing, graph.provided}) {
    const int among = PySequence_Contains(names, name.get());
    if (among) return among < 0 ? RAISED : YES;
  }
  const int passes = PySequence_Contains(graph.passing, code);
  return passes < 0 ? RAISED : passes ? YES : NO;
}

// The numbers that stand in the expression which a frame evaluates (graph/origin.py).
Ref written_at(PyFrameObject* frame, PyObject* code) {
  Ref offset(PyLong_FromLong(PyFrame_GetLasti(frame))), id(PyLong_FromVoidPtr(code));
  Ref site(offset && id ? PyTuple_Pack(2, id.get(), offset.get()) : nullptr);
  if (!site) return Ref();
  PyObject* known = PyDict_GetItemWithError(graph.written, site.get());
  if (known) return Ref::to(PyTuple_GET_ITEM(known, 1));
  if (PyErr_Occurred()) return Ref();
  return Ref(PyObject_CallFunctionObjArgs(graph.written_at, code, offset.get(), nullptr));
}

// Whether a number stands in the expression that asked for an op (graph/origin.py).
Answer is_written(PyObject* x) {
  Answer answer = NO;
  const bool found = through_frames([&](PyFrameObject* frame, Ref& code, bool ours) {
    if (ours) {
      const Answer on = hands_on(code.get());
      if (on == YES) return Next::outward;
      answer = on == NO ? YES : RAISED;  // numbers in rules of the library are written
      return Next::done;
    }
    Ref known = written_at(frame, code.get());
    answer = !known ? RAISED : is_among(x, known.get()) ? YES : NO;
    return Next::done;
  });
  return found ? answer : RAISED;
}

// Whether this very object always stands for the same (graph/signature.py).
bool is_fixed(PyObject* x) {
  if (PyTuple_Check(x)) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(x); k++)
      if (!is_fixed(PyTuple_GET_ITEM(x, k))) return false;
    return true;
  }
  return is_variable(x) || PyObject_IsInstance(x, graph.taken) == 0;
}

// The key of a call, and the tensors and the data among its arguments, borrowed; where a
// plan may be made for it, nothing told by identity is what changes.
struct Signature {
  int64_t key[LONGEST + 2];
  PyObject* values[LONGEST];
  size_t length = 0, seen = 0;
  bool makes = false;

  // Tells some arguments, and puts down the tensors and the data among them; whether
  // there is room for them.
  bool tell(PyObject* const* things, Py_ssize_t count, int data) {
    for (Py_ssize_t k = 0; k < count; k++) {
      if (length >= LONGEST || seen >= LONGEST) return false;
      PyObject* x = things[k];
      PyTypeObject* kind = Py_TYPE(x);
      if (data == AS_PARTS && !(seen ? is_range(x) : waits(x))) return false;
      if (PySlice_Check(x)) {
        if (!tell_slice(reinterpret_cast<PySliceObject*>(x))) return false;
        continue;
      }
      const bool by_type = data != AS_FLOATS && is_variable(x);
      if (by_type || kind == nodes.kind ||
          kind == reinterpret_cast<PyTypeObject*>(graph.item)) {
        size_t first = 0;
        while (first < seen && values[first] != x) first++;
        PyObject* node = by_type ? graph.committed.of(x) : x;
        if (!node) return false;  // its versions are made when they are asked for
        if (first < seen) {
          put(SAME, static_cast<int64_t>(first));
        } else if (by_type) {
          put(CLASS, reinterpret_cast<intptr_t>(kind));
          put(VARIABLE, reinterpret_cast<intptr_t>(nodes.type.of(node)));
        } else {
          put(TENSOR, reinterpret_cast<intptr_t>(nodes.type.of(node)));
        }
        values[seen++] = x;
      } else if (data == AS_SCALARS && (kind == &PyFloat_Type || kind == &PyLong_Type)) {
        const Answer written = is_small(x) ? is_written(x) : NO;
        if (written == RAISED) return PyErr_Clear(), false;
        if (written == NO) {
          put(SCALAR, kind == &PyFloat_Type);
          values[seen++] = x;
        } else if (kind == &PyLong_Type) {
          put(WRITTEN, PyLong_AsLong(x));
        } else {
          put_float(x);
        }
      } else if (kind == &PyFloat_Type) {
        if (data == AS_FLOATS) return false;
        put_float(x);
      } else if (data == AS_ROWS && kind == &PyLong_Type) {
        put(NUMBER, 0);
        values[seen++] = x;
      } else if (data == AS_FLOATS && is_array(x)) {
        if (!tell_array(x)) return false;
        values[seen++] = x;
      } else if (kind == &PyLong_Type) {
        int large;
        const long long value = PyLong_AsLongLongAndOverflow(x, &large);
        if (large) return false;
        put(WHOLE, value);
      } else {
        if (makes && !is_fixed(x)) return PyErr_Clear(), false;
        put(OTHER, reinterpret_cast<intptr_t>(x));
      }
    }
    return true;
  }

  // Tells what numbers become by default, and the arguments of a call, of which the last
  // have names, the items of tuples and lists included.
  bool tell_all(PyObject* const* args, Py_ssize_t count, PyObject* names, int data) {
    PyObject* modes = nullptr;
    if (PyContextVar_Get(scopes.modes, nullptr, &modes) < 0) return PyErr_Clear(), false;
    put(DTYPE, reinterpret_cast<intptr_t>(scopes.dtype.of(modes)));
    Py_DECREF(modes);
    const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t k = 0; k < count + named; k++) {
      PyObject* x = args[k];
      if (k >= count) {
        if (length >= LONGEST) return false;
        put(NAMED, reinterpret_cast<intptr_t>(PyTuple_GET_ITEM(names, k - count)));
      }
      if (PyTuple_CheckExact(x) || PyList_CheckExact(x)) {
        if (length >= LONGEST) return false;
        put(PyTuple_CheckExact(x) ? TUPLE : LIST, PySequence_Fast_GET_SIZE(x));
        if (!tell(PySequence_Fast_ITEMS(x), PySequence_Fast_GET_SIZE(x), data))
          return false;
      } else if (!tell(args + k, 1, data)) {
        return false;
      }
    }
    return length <= LONGEST;
  }

  PyObject* bytes() const {
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(key),
                                     static_cast<Py_ssize_t>(length * sizeof *key));
  }

  bool is(PyObject* bytes) const {
    return static_cast<size_t>(PyBytes_GET_SIZE(bytes)) == length * sizeof *key &&
           !std::memcmp(PyBytes_AS_STRING(bytes), key, length * sizeof *key);
  }

 private:
  static bool is_range(PyObject* x) {
    return PySlice_Check(x) || x == Py_None || x == Py_Ellipsis;
  }
  // Whether x is a tensor that is yet to be computed of others.
  static bool waits(PyObject* x) {
    PyTypeObject* kind = Py_TYPE(x);
    return (kind == nodes.kind || kind == reinterpret_cast<PyTypeObject*>(graph.item)) &&
           nodes.stored.of(x) == Py_None && PyTuple_GET_SIZE(nodes.inputs.of(x));
  }

  // Tells which bounds of a slice are none, and the others, which may be no numbers.
  bool tell_slice(PySliceObject* x) {
    constexpr size_t bounds = 3;
    if (length + 2 * (1 + bounds) > LONGEST) return false;
    PyObject* each[bounds] = {x->start, x->stop, x->step};
    long long values[bounds] = {};
    int64_t none = 0;
    for (size_t k = 0; k < bounds; k++) {
      int large = 0;
      if (each[k] == Py_None)
        none |= int64_t{1} << k;
      else if (PyLong_CheckExact(each[k]))
        values[k] = PyLong_AsLongLongAndOverflow(each[k], &large);
      else
        return false;
      if (large) return false;
    }
    put(SLICE, none);
    for (const long long value : values) put(BOUND, value);
    return true;
  }

  // Tells the format of an array, its letters as a number, and its extents; whether
  // buffers know it, and there is room.
  bool tell_array(PyObject* x) {
    Py_buffer view;
    if (PyObject_GetBuffer(x, &view, PyBUF_FULL_RO) < 0) return PyErr_Clear(), false;
    const size_t letters = std::strlen(view.format);
    const auto extents = static_cast<size_t>(view.ndim);
    const bool fits = letters <= FORMAT && length + 2 * (2 + extents) <= LONGEST;
    if (fits) {
      int64_t format = 0;
      for (size_t k = 0; k < letters; k++)
        format |= static_cast<int64_t>(view.format[k]) << (8 * k);
      put(ARRAY, format);
      put(ARRAY, view.ndim);
      for (size_t k = 0; k < extents; k++) put(ARRAY, view.shape[k]);
    }
    PyBuffer_Release(&view);
    return fits;
  }

  void put_float(PyObject* x) {
    int64_t bits;
    const double value = PyFloat_AS_DOUBLE(x);
    std::memcpy(&bits, &value, sizeof bits);
    put(WRITTEN_FLOAT, bits);
  }

  void put(int64_t how, int64_t what) {
    key[length] = how;
    key[length + 1] = what;
    length += 2;
  }
};

// -- whether a plan holds --------------------------------------------------------------

// A Variable of a plan, borrowed, which may be an argument of the call.
PyObject* variable_of(PyObject* told, const Signature& call) {
  return PyLong_CheckExact(told) ? call.values[PyLong_AsSize_t(told)] : told;
}

// The newest version of a Variable: one that was assigned and waits, or what is there,
// which one of a class of its own may yet make; in a trace, what stands for it there.
PyObject* newest(PyObject* variable, PyObject* frame, PyObject* versions) {
  static PyObject *const committed = interned("committed"), *const node = interned("node");
  if (states.tracing.of(frame) != Py_False) return PyObject_CallMethodNoArgs(variable, node);
  if (PyDict_GET_SIZE(versions)) {
    Ref id(PyLong_FromVoidPtr(variable));
    PyObject* waits = id ? PyDict_GetItemWithError(versions, id.get()) : nullptr;
    if (waits || PyErr_Occurred()) return Py_XNewRef(waits);
  }
  PyObject* version = graph.committed.of(variable);
  return version ? Py_NewRef(version) : PyObject_GetAttr(variable, committed);
}

Answer holds(const Written& plan) {
  if (PyList_GET_SIZE(graph.watchers) || PyList_GET_SIZE(graph.holding)) return NO;
  if (plan.holds) {  // in a trace it would be another call
    PyObject* state = own_state();
    if (!state) return RAISED;
    if (states.tracing.of(frame_of(state)) != Py_False) return NO;
  }
  return plan.holds ? says(plan.holds) : YES;
}

// -- the user's line -------------------------------------------------------------------

}  // namespace

bool has_no_watchers() {
  return graph.capture && !PyList_GET_SIZE(graph.watchers) && !PyList_GET_SIZE(graph.holding);
}

bool locate(Site& site) {
  const bool found = through_frames([&](PyFrameObject* frame, Ref& code, bool ours) {
    if (ours) return Next::outward;
    site.code = std::move(code);
    site.offset = Ref(PyLong_FromLong(PyFrame_GetLasti(frame)));
    return Next::done;
  });
  if (found) return static_cast<bool>(site.offset);
  if (PyErr_Occurred()) return false;
  static PyObject* const above = PyLong_FromLong(1);
  Ref pair(PyObject_CallOneArg(graph.capture, above));
  if (!pair) return false;
  site.code = Ref::to(PyTuple_GET_ITEM(pair.get(), 0));
  site.offset = Ref::to(PyTuple_GET_ITEM(pair.get(), 1));
  return true;
}

PyObject* make_here(PyTypeObject* kind, PyObject* op, PyObject* inputs, PyObject* type,
                    PyObject* stored) {
  static PyObject* const closed = interned("closed");
  PyObject* state = own_state();
  Ref told(state ? PyObject_GetAttr(op, closed) : nullptr);
  Site site;
  if (!told || !locate(site)) return nullptr;
  PyObject* notes = states.notes.of(state);
  const bool hidden = told.get() == Py_True && kind == nodes.kind && are_plain(notes);
  return make({kind, op, inputs, type, stored, depth_over(inputs), site.code.get(),
               site.offset.get(), notes, hidden});
}

namespace {

// What Python makes where there are watchers, a held line, or more than 6 arguments.
PyObject* new_node_in_python = nullptr;

PyObject* bind_new_node(PyObject*, PyObject* function) {
  Py_XDECREF(std::exchange(new_node_in_python, Py_NewRef(function)));
  Py_RETURN_NONE;
}

PyObject* new_node(PyObject*, PyObject* const* args, Py_ssize_t given) {
  const bool plain = given >= 3 && given <= 6 && has_no_watchers() &&
                     PyTuple_CheckExact(args[1]) && are_nodes(args[1]);
  if (!plain) {
    PyErr_Clear();
    return PyObject_Vectorcall(new_node_in_python, args, static_cast<size_t>(given), nullptr);
  }
  auto* kind = given == 6 ? reinterpret_cast<PyTypeObject*>(args[5]) : nodes.kind;
  return make_here(kind, args[0], args[1], args[2], given >= 5 ? args[4] : Py_None);
}

// -- what a plan comes to --------------------------------------------------------------

constexpr npy_intp BRIEF = 1024;  // elements, of which any place is as good (graph/leaves.py)

// A copy of an array in the order of its indices, as `to_array` makes it.
PyObject* copied(PyObject* x) {
  PyArrayObject* array = array_of(x);
  PyObject* dtype = reinterpret_cast<PyObject*>(PyArray_DESCR(array));
  PyObject* own = PyDict_GetItemWithError(graph.dtypes, dtype);
  if (!own && PyErr_Occurred()) return nullptr;
  if (own == dtype && PyArray_SIZE(array) < BRIEF) return PyArray_NewCopy(array, NPY_CORDER);
  return PyObject_CallOneArg(graph.copied, x);
}

PyObject* types = nullptr;  // those in use, by what they are made of (base/types.py)

PyObject* bind_types(PyObject*, PyObject* table) {
  if (!PyDict_Check(table)) return PyErr_BadArgument(), nullptr;
  Py_XDECREF(std::exchange(types, Py_NewRef(table)));
  Py_RETURN_NONE;
}

// The type of an array; null where Python has raised something.
PyObject* type_of(PyObject* x) {
  PyArrayObject* array = array_of(x);
  Ref shape(PyArray_IntTupleFromIntp(PyArray_NDIM(array), PyArray_DIMS(array)));
  PyObject* dtype = reinterpret_cast<PyObject*>(PyArray_DESCR(array));
  Ref key(shape ? PyTuple_Pack(3, shape.get(), dtype, Py_None) : nullptr);
  PyObject* known = key ? PyDict_GetItemWithError(types, key.get()) : nullptr;
  if (!key || PyErr_Occurred()) return nullptr;
  PyObject* type = known ? target_of(known) : nullptr;
  if (type && type != Py_None) return Py_NewRef(type);
  return PyObject_CallFunctionObjArgs(graph.type, shape.get(), dtype, nullptr);
}

PyObject* leaf_of(PyObject* x, PyObject* type, const Site& site, PyObject* notes,
                  bool plain) {
  Ref array, known;
  if (is_array(x)) {
    array = Ref(copied(x));
    if (!array) return nullptr;
    PyArray_CLEARFLAGS(array_of(array.get()), NPY_ARRAY_WRITEABLE);
    if (type == Py_None) known = Ref(type_of(array.get())), type = known.get();
    if (!type) return nullptr;
  } else if (type != Py_None) {
    array = Ref(PyObject_CallFunctionObjArgs(graph.scalar, x, type, nullptr));
  } else {
    array = Ref::to(PyDict_GetItemWithError(graph.integers, x));
    if (!array && PyErr_Occurred()) return nullptr;
    if (!array) array = Ref(PyObject_CallOneArg(graph.integer, x));
    type = graph.whole;
  }
  Ref empty(PyTuple_New(0));
  if (!array || !empty) return nullptr;
  return make({nodes.kind, graph.constant, empty.get(), type, array.get(), 0,
               site.code.get(), site.offset.get(), notes, plain});
}

// The values of a call, of which a plan has at most LONGEST; references are let go of.
class Values {
 public:
  ~Values() {
    while (count_) Py_DECREF(values_[--count_]);
  }
  void push(PyObject* owned) { values_[count_++] = owned; }
  void put(size_t k, PyObject* owned) { Py_DECREF(std::exchange(values_[k], owned)); }
  PyObject* operator[](size_t k) const { return values_[k]; }

 private:
  PyObject* values_[LONGEST];
  size_t count_ = 0;
};

PyObject* formed(const Written& plan, const Values& values) {
  auto count = static_cast<Py_ssize_t>(plan.results.size());
  if (plan.form != TUPLE && plan.form != LIST)
    return Py_NewRef(values[plan.results[0]]);
  Ref made(plan.form == TUPLE ? PyTuple_New(count) : PyList_New(count));
  if (!made) return nullptr;
  for (Py_ssize_t k = 0; k < count; k++) {
    PyObject* x = Py_NewRef(values[plan.results[static_cast<size_t>(k)]]);
    if (plan.form == TUPLE)
      PyTuple_SET_ITEM(made.get(), k, x);
    else
      PyList_SET_ITEM(made.get(), k, x);
  }
  if (plan.form == TUPLE) hide(made.get());
  return made.release();
}

PyObject* follow(const Written& plan, const Signature& call) {
  PyObject* state = own_state();
  Site site;
  if (!state) return nullptr;
  Ref notes = Ref::to(states.notes.of(state));
  Ref frame = Ref::to(frame_of(state)), versions = Ref::to(states.versions.of(frame.get()));
  if (!locate(site)) return nullptr;
  const bool plain = are_plain(notes.get());
  Values values;
  for (size_t k = 0; k < plan.given; k++) values.push(Py_NewRef(call.values[k]));
  for (PyObject* told : plan.variables) {
    PyObject* version = newest(variable_of(told, call), frame.get(), versions.get());
    if (!version) return nullptr;
    values.push(version);
  }
  for (PyObject* x : plan.captured) values.push(Py_NewRef(x));
  for (PyObject* x : plan.leaves) {
    PyObject* leaf = make({nodes.kind, nodes.op.of(x), nodes.inputs.of(x), nodes.type.of(x),
                           nodes.stored.of(x), 0, site.code.get(), site.offset.get(),
                           notes.get(), plain});
    if (!leaf) return nullptr;
    values.push(leaf);
  }
  for (const Datum& x : plan.data) {
    PyObject* leaf = leaf_of(values[x.place], x.type, site, notes.get(), plain);
    if (!leaf) return nullptr;
    values.put(x.place, leaf);
  }
  for (const Step& step : plan.steps) {
    Ref inputs(PyTuple_New(static_cast<Py_ssize_t>(step.places.size())));
    if (!inputs) return nullptr;
    for (size_t k = 0; k < step.places.size(); k++)
      PyTuple_SET_ITEM(inputs.get(), static_cast<Py_ssize_t>(k),
                       Py_NewRef(values[step.places[k]]));
    PyObject* made = make({nodes.kind, step.op, inputs.get(), step.type, Py_None,
                           depth_over(inputs.get()), site.code.get(), site.offset.get(),
                           notes.get(), plain && step.closed});
    if (!made) return nullptr;
    values.push(made);
  }
  return formed(plan, values);
}

// The result of a call that a plan leaves to a function, with copies of the arrays.
PyObject* call_runner(const Written& plan, const Signature& call) {
  Ref run = Ref::to(plan.run), values(PyTuple_New(static_cast<Py_ssize_t>(call.seen)));
  if (!values) return nullptr;
  for (size_t k = 0; k < call.seen; k++) {
    PyObject* x = call.values[k];
    PyObject* own = is_array(x) ? copied(x) : Py_NewRef(x);
    if (!own) return nullptr;
    PyTuple_SET_ITEM(values.get(), static_cast<Py_ssize_t>(k), own);
  }
  return PyObject_CallOneArg(run.get(), values.get());
}

// As graph/signature.py does it, for a function that is called by its long way.
PyObject* signature(PyObject*, PyObject* args) {
  PyObject *given, *named;
  int data;
  if (!PyArg_ParseTuple(args, "O!iO!", &PyTuple_Type, &given, &data, &PyDict_Type, &named))
    return nullptr;
  std::vector<PyObject*> things(PySequence_Fast_ITEMS(given),
                                PySequence_Fast_ITEMS(given) + PyTuple_GET_SIZE(given));
  Ref names(PyTuple_New(PyDict_GET_SIZE(named)));
  if (!names) return nullptr;
  PyObject *name, *x;
  for (Py_ssize_t at = 0, k = 0; PyDict_Next(named, &at, &name, &x); k++) {
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    PyTuple_SET_ITEM(names.get(), k, name);
    things.push_back(x);
  }
  Signature call;
  call.makes = true;
  if (!call.tell_all(things.data(), PyTuple_GET_SIZE(given), names.get(), data))
    Py_RETURN_NONE;
  return call.bytes();
}

// -- calls -----------------------------------------------------------------------------

// A function that follows the plans of one that is `Called`, and leaves all other calls
// to its long way; `plans` has them by key, `latest` the key and the plan of the last.
struct CallObject {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject *plans, *latest, *longway, *attributes;
  int data;
};

// The plan of a call, a reference; null if there is none.
PyObject* planned(CallObject* own, const Signature& call) {
  if (call.is(PyList_GET_ITEM(own->latest, 0)))
    return Py_NewRef(PyList_GET_ITEM(own->latest, 1));
  Ref key(call.bytes());
  if (!key) return nullptr;
  Ref plan = Ref::to(PyDict_GetItemWithError(own->plans, key.get()));
  if (!plan) return nullptr;
  PyList_SetItem(own->latest, 0, key.release());
  PyList_SetItem(own->latest, 1, Py_NewRef(plan.get()));
  return plan.release();
}

// The arguments of a call with tensors in the place of arrays, which a key does not tell.
class Arguments {
 public:
  // Makes leaves of the arrays; false, and nothing, where Python has to say what they are.
  bool take(PyObject* const* args, Py_ssize_t count, PyObject* names) {
    Ref notes;
    Site site;
    for (Py_ssize_t k = 0; k < count; k++) {
      if (!is_array(args[k])) continue;
      if (args_.empty()) {
        PyObject* state = has_no_watchers() ? own_state() : nullptr;
        if (!state || !locate(site)) return false;
        notes = Ref::to(states.notes.of(state));
        args_.assign(args, args + count + (names ? PyTuple_GET_SIZE(names) : 0));
      }
      leaves_.push_back(Ref(leaf_of(args[k], Py_None, site, notes.get(), are_plain(notes.get()))));
      if (!leaves_.back()) return false;
      args_[static_cast<size_t>(k)] = leaves_.back().get();
    }
    return !args_.empty();
  }
  PyObject* const* data() const { return args_.data(); }

 private:
  std::vector<PyObject*> args_;  // borrowed
  std::vector<Ref> leaves_;
};

PyObject* call_call(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  auto* own = reinterpret_cast<CallObject*>(self);
  Ref alive = Ref::to(self);
  Signature call;
  Arguments tensors;
  const bool leaves = own->data != AS_FLOATS && own->data != AS_PARTS;
  if (leaves && tensors.take(args, PyVectorcall_NARGS(flags), names)) {
    args = tensors.data();
    flags = static_cast<size_t>(PyVectorcall_NARGS(flags));
  } else if (PyErr_Occurred()) {  // of what is no array of numbers: the function says so
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return nullptr;
    PyErr_Clear();
  }
  if (call.tell_all(args, PyVectorcall_NARGS(flags), names, own->data)) {
    Ref plan(planned(own, call));
    if (!plan && PyErr_Occurred()) return nullptr;
    if (plan) {
      Written* written = reinterpret_cast<PlanObject*>(plan.get())->plan;
      Answer answer = written ? holds(*written) : NO;
      if (answer == RAISED) return nullptr;
      if (answer == YES && written->run) return call_runner(*written, call);
      if (answer == YES) {
        PyObject* made = follow(*written, call);
        // A number that does not fit beside its tensor: the long way says so.
        if (made || !PyErr_ExceptionMatches(PyExc_OverflowError)) return made;
        PyErr_Clear();
      }
    }
  }
  return PyObject_Vectorcall(own->longway, args, flags, names);
}

int call_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* own = reinterpret_cast<CallObject*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(own->plans);
  Py_VISIT(own->latest);
  Py_VISIT(own->longway);
  Py_VISIT(own->attributes);
  return 0;
}

int call_clear(PyObject* self) {
  auto* own = reinterpret_cast<CallObject*>(self);
  Py_CLEAR(own->plans);
  Py_CLEAR(own->latest);
  Py_CLEAR(own->longway);
  Py_CLEAR(own->attributes);
  return 0;
}

// As a function of Python, it is a method of the object that it is asked of.
PyObject* bound(PyObject* self, PyObject* x, PyObject*) {
  return x && x != Py_None ? PyMethod_New(self, x) : Py_NewRef(self);
}

PyMemberDef call_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CallObject, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(CallObject, attributes), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
// As a function of Python has: its name, and its docstring.
PyGetSetDef call_attributes[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot call_slots[] = {
    {Py_tp_doc, const_cast<char*>("A function that follows plans.")},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_descr_get, reinterpret_cast<void*>(bound)},
    {Py_tp_members, call_members},
    {Py_tp_getset, call_attributes},
    {Py_tp_traverse, reinterpret_cast<void*>(call_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(call_clear)},
    {Py_tp_dealloc, reinterpret_cast<void*>(freed<call_clear>)},
    {0, nullptr}};
PyType_Spec call_spec = {"treadle.core.native.Call", sizeof(CallObject), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                             Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR |
                             Py_TPFLAGS_DISALLOW_INSTANTIATION,
                         call_slots};
PyTypeObject* call_type;

PyObject* call(PyObject*, PyObject* args) {
  PyObject *plans, *latest, *longway;
  int data;
  if (!PyArg_ParseTuple(args, "O!O!Oi", &PyDict_Type, &plans, &PyList_Type, &latest,
                        &longway, &data))
    return nullptr;
  PyObject* made = call_type->tp_alloc(call_type, 0);
  if (!made) return nullptr;
  auto* own = reinterpret_cast<CallObject*>(made);
  own->vectorcall = call_call;
  own->plans = Py_NewRef(plans);
  own->latest = Py_NewRef(latest);
  own->longway = Py_NewRef(longway);
  own->data = data;
  return made;
}

// -- calls of what has notes of its own ------------------------------------------------

// Has the thread's new nodes carry other notes; whether that could be done.
bool carry(PyObject* notes) {
  PyObject* state = own_state();
  if (state) states.notes.put(state, notes);
  return state != nullptr;
}

// What an object keeps of its notes, if it is for these around and its path.
Ref known_notes(PyObject* x, PyObject* around) {
  static PyObject *const notes = interned("_notes"), *const path = interned("_path");
  Ref found(PyObject_GetAttr(x, notes));
  if (found && PyTuple_CheckExact(found.get()) && PyTuple_GET_SIZE(found.get()) == 3) {
    Ref own(PyObject_GetAttr(x, path));
    if (own && PyTuple_GET_ITEM(found.get(), 0) == around &&
        PyTuple_GET_ITEM(found.get(), 1) == own.get())
      return Ref::to(PyTuple_GET_ITEM(found.get(), 2));
  }
  PyErr_Clear();
  return Ref();
}

PyObject* enter(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  static PyObject* const forward = interned("forward");
  PyObject* state = PyVectorcall_NARGS(flags) ? own_state() : nullptr;
  Ref before = Ref::to(state ? states.notes.of(state) : nullptr);
  Ref notes = before ? known_notes(args[0], before.get()) : Ref();
  if (!notes) {  // Python raises again what was raised
    PyErr_Clear();
    return PyObject_Vectorcall(reinterpret_cast<CallObject*>(self)->longway, args, flags,
                               names);
  }
  if (!carry(notes.get())) return nullptr;
  Ref result(PyObject_VectorcallMethod(forward, args, flags, names));
  PyObject *kind, *error, *trace;
  PyErr_Fetch(&kind, &error, &trace);  // notes are put back whatever was raised
  bool back = carry(before.get());
  if (!result) {
    if (!back) PyErr_Clear();
    PyErr_Restore(kind, error, trace);
    return nullptr;
  }
  return back ? result.release() : nullptr;
}

PyObject* entered(PyObject*, PyObject* longway) {
  PyObject* made = call_type->tp_alloc(call_type, 0);
  if (!made) return nullptr;
  auto* own = reinterpret_cast<CallObject*>(made);
  own->vectorcall = enter;
  own->longway = Py_NewRef(longway);
  return made;
}

PyObject* bind_calls(PyObject*, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"item",     "library",  "capture",  "watchers",
                                "holding",  "integers", "integer",  "scalar",
                                "constant", "whole",    "plumbing", "provided",
                                "passing",  "changes",  "written",  "written_at",
                                "dtypes",   "type",     "copied",   "again",
                                "variable", "taken",    nullptr};
  Graph found;
  PyObject* again;
  if (!PyArg_ParseTupleAndKeywords(
          args, keywords, "OO!OO!O!O!OOOOOOOOO!OO!OOOOO!", const_cast<char**>(names), &found.item,
          &PyDict_Type, &found.library, &found.capture, &PyList_Type, &found.watchers,
          &PyList_Type, &found.holding, &PyDict_Type, &found.integers, &found.integer,
          &found.scalar, &found.constant, &found.whole, &found.plumbing, &found.provided,
          &found.passing, &found.changes, &PyDict_Type, &found.written, &found.written_at,
          &PyDict_Type, &found.dtypes, &found.type, &found.copied, &again, &found.variable,
          &PyTuple_Type, &found.taken))
    return nullptr;
  auto* changes = reinterpret_cast<PyObject*>(Py_TYPE(found.changes));
  if (!found.now.find(changes, "now") || !found.seen.find(again, "seen") ||
      !found.committed.find(found.variable, "committed"))
    return nullptr;
  for (PyObject* x : {found.item, found.library, found.capture, found.watchers,
                      found.holding, found.integers, found.integer, found.scalar,
                      found.constant, found.whole, found.plumbing, found.provided,
                      found.passing, found.changes, found.written, found.written_at,
                      found.dtypes, found.type, found.copied, found.variable, found.taken})
    Py_INCREF(x);
  graph = found;
  Py_RETURN_NONE;
}

}  // namespace

bool add_call_types(PyObject* module) {
  plan_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&plan_spec));
  call_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&call_spec));
  guard_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&guard_spec));
  for (PyTypeObject* type : {plan_type, call_type, guard_type})
    if (!type || PyModule_AddType(module, type) < 0) return false;
  return true;
}

PyMethodDef call_functions[] = {
    {"bind_calls",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(bind_calls)),
     METH_VARARGS | METH_KEYWORDS, "bind_calls(**things): what calls need of the graph."},
    {"bind_new_node", bind_new_node, METH_O, "bind_new_node(function): its twin."},
    {"bind_types", bind_types, METH_O, "bind_types(table): those of base/types.py in use."},
    {"new_node", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(new_node)),
     METH_FASTCALL, "new_node(op, inputs, type, above, stored, class): graph/tensor.py."},
    {"signature", signature, METH_VARARGS, "signature(args, data, named): the key of a call."},
    {"plan", plan, METH_VARARGS,
     "plan(given, variables, captured, leaves, steps, form, results, data, holds, things, run)"},
    {"guard", guard, METH_VARARGS,
     "guard(seen, more): tells whether it is there, and what more says."},
    {"call", call, METH_VARARGS, "call(plans, latest, long, data): follows plans."},
    {"entered", entered, METH_O, "entered(long): a method that has notes carried."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace treadle
