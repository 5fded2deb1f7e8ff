// Nodes as Python's objects. One that is closed is not seen by the cyclic collector: it
// refers to older nodes and plain data, so counting references is enough for it.
#include "walk.hpp"

namespace treadle {

Nodes nodes;
States states;
Scopes scopes;

bool Slot::find(PyObject* kind, const char* name) {
  Ref found(PyObject_GetAttrString(kind, name));
  if (!found) return false;
  if (Py_TYPE(found.get()) != &PyMemberDescr_Type) {
    PyErr_Format(PyExc_TypeError, "%R has no slot %s", kind, name);
    return false;
  }
  offset_ = reinterpret_cast<PyMemberDescrObject*>(found.get())->d_member->offset;
  return true;
}

long long depth_over(PyObject* inputs) {
  long long depth = 0;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(inputs); k++) {
    long long below = number(nodes.depth.of(PyTuple_GET_ITEM(inputs, k)));
    if (below >= depth) depth = below + 1;
  }
  return depth;
}

void hide(PyObject* tuple) {
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); k++)
    if (PyObject_GC_IsTracked(PyTuple_GET_ITEM(tuple, k))) return;
  if (PyTuple_GET_SIZE(tuple)) PyObject_GC_UnTrack(tuple);
}

bool are_plain(PyObject* notes) {
  if (notes == Py_None) return true;
  static PyObject* const closed = PyUnicode_InternFromString("closed");
  Ref told(PyObject_GetAttr(notes, closed));
  if (!told) PyErr_Clear();
  return told.get() == Py_True;
}

// The state that was asked for last, and its thread, whose number never comes again.
PyObject* own_state() {
  static PyObject* state = nullptr;
  static uint64_t thread = 0;
  uint64_t own = PyThreadState_GetID(PyThreadState_Get());
  if (state && thread == own) return state;
  PyObject* found = PyObject_CallNoArgs(states.ask);
  if (!found) return nullptr;
  PyObject* before = std::exchange(state, found);
  thread = own;
  Py_XDECREF(before);
  // What was let go of may have asked, too, in a thread of its own.
  return thread == own ? state : own_state();
}

PyObject* without_recipe(PyObject* mark) {
  static PyObject* const names[] = {PyUnicode_InternFromString("program"),
                                    PyUnicode_InternFromString("recipe")};
  Ref rest(PyDict_Copy(mark));
  for (PyObject* name : names) {
    const int there = rest ? PyDict_Contains(rest.get(), name) : -1;
    if (there < 0 || (there && PyDict_DelItem(rest.get(), name) < 0)) return nullptr;
  }
  return rest.release();
}

// The mark of a new node: what the scopes around its task say.
static PyObject* new_mark() {
  if (!scopes.count) return Py_NewRef(Py_None);
  PyObject* now = nullptr;
  if (PyContextVar_Get(scopes.modes, nullptr, &now) < 0) return nullptr;
  const bool inside = number(scopes.no_grad.of(now)) > 0;
  Py_DECREF(now);
  return Py_NewRef(inside ? scopes.mark : Py_None);
}

namespace {

PyTypeObject *result_type, *results_type;

void free_plainly(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

void free_result(PyObject* self) {
  auto* own = reinterpret_cast<LivingResult*>(self);
  LivingResult** place = &own->of->first;
  while (*place != own) place = &(*place)->next;
  *place = own->next;
  Py_DECREF(own->of);
  free_plainly(self);
}

// Neither is in a cycle: what they refer to refers to nothing.
PyTypeObject* plain_type(const char* name, size_t size, destructor free) {
  PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(free)}, {0, nullptr}};
  PyType_Spec spec = {name, static_cast<int>(size), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
}

}  // namespace

bool add_result_types() {
  result_type =
      plain_type("treadle.core.native.LivingResult", sizeof(LivingResult), free_result);
  results_type =
      plain_type("treadle.core.native.LivingResults", sizeof(LivingResults), free_plainly);
  return result_type && results_type;
}

LivingResults* results_of(PyObject* node) {
  PyObject* results = nodes.results.of(node);
  const bool several = results && Py_TYPE(results) == results_type;
  return several ? reinterpret_cast<LivingResults*>(results) : nullptr;
}

bool is_noted_as_result(PyObject* node) {
  PyObject* inputs = nodes.inputs.of(node);
  if (PyTuple_GET_SIZE(inputs) != 1) return true;
  PyObject* whole = PyTuple_GET_ITEM(inputs, 0);
  if (Py_TYPE(nodes.type.of(whole)) != nodes.several) return true;
  LivingResults* results = results_of(whole);
  if (!results) {
    results = PyObject_New(LivingResults, results_type);
    if (!results) return false;
    results->first = nullptr;
    Py_SETREF(nodes.results.of(whole), reinterpret_cast<PyObject*>(results));
  }
  auto* own = PyObject_New(LivingResult, result_type);
  if (!own) return false;
  own->node = node;
  Py_INCREF(results);
  own->of = results;
  own->next = nullptr;
  LivingResult** last = &results->first;
  while (*last) last = &(*last)->next;
  *last = own;
  Py_SETREF(nodes.results.of(node), reinterpret_cast<PyObject*>(own));
  return true;
}

// The number of the next node: it orders all nodes, of all threads.
static long long serials = 0;
static long long last_run = 0;  // the number at which any thread last ran something

void mark_run() { last_run = serials++; }
long long made_since_run(PyObject* node) { return number(nodes.serial.of(node)) - last_run; }

PyObject* make(const New& made) {
  Ref node(PyType_GenericAlloc(made.kind, 0));
  if (!node) return nullptr;
  PyObject* x = node.get();
  nodes.op.of(x) = Py_NewRef(made.op);
  nodes.inputs.of(x) = Py_NewRef(made.inputs);
  nodes.type.of(x) = Py_NewRef(made.type);
  nodes.stored.of(x) = Py_NewRef(made.stored);
  nodes.code.of(x) = Py_NewRef(made.code);
  nodes.offset.of(x) = Py_NewRef(made.offset);
  nodes.metadata.of(x) = Py_NewRef(made.notes);
  nodes.name.of(x) = Py_NewRef(Py_None);
  nodes.results.of(x) = Py_NewRef(Py_None);
  nodes.mark.of(x) = new_mark();
  if (!nodes.mark.of(x)) return nullptr;
  nodes.depth.of(x) = PyLong_FromLongLong(made.depth);
  const long long serial = serials++;
  nodes.serial.of(x) = PyLong_FromLongLong(serial);
  if (!nodes.serial.of(x) || !nodes.depth.of(x)) return nullptr;
  if ((serial & nodes.every) == nodes.every) {
    Ref said(PyObject_CallOneArg(nodes.warn, x));
    if (!said) return nullptr;
  }
  if (made.hidden) {
    PyObject_GC_UnTrack(x);
    if (PyTuple_GET_SIZE(made.inputs)) PyObject_GC_UnTrack(made.inputs);
  }
  return is_noted_as_result(x) ? node.release() : nullptr;
}

namespace {

bool counted(const char* name, Py_ssize_t given, Py_ssize_t asked) {
  if (given == asked) return true;
  PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", name, asked, given);
  return false;
}

PyObject* bind_nodes(PyObject*, PyObject* args) {
  PyObject *kind, *several, *warn;
  long long every;
  if (!PyArg_ParseTuple(args, "O!O!OL", &PyType_Type, &kind, &PyType_Type, &several, &warn,
                        &every))
    return nullptr;
  Nodes found;
  found.kind = reinterpret_cast<PyTypeObject*>(kind);
  const std::pair<Slot*, const char*> names[] = {
      {&found.op, "op"},         {&found.inputs, "inputs"},
      {&found.type, "type"},     {&found.serial, "serial"},
      {&found.depth, "depth"},   {&found.stored, "stored"},
      {&found.mark, "mark"},     {&found.code, "_code"},
      {&found.offset, "_offset"}, {&found.name, "_name"},
      {&found.metadata, "_metadata"}, {&found.results, "_results"}};
  for (auto& [slot, name] : names)
    if (!slot->find(kind, name)) return nullptr;
  found.warn = Py_NewRef(warn);
  found.every = every;
  found.several = reinterpret_cast<PyTypeObject*>(Py_NewRef(several));
  Py_INCREF(kind);
  nodes = found;
  Py_RETURN_NONE;
}

PyObject* bind_states(PyObject*, PyObject* args) {
  PyObject *ask, *state, *frame;
  if (!PyArg_ParseTuple(args, "OOO", &ask, &state, &frame)) return nullptr;
  States found;
  if (!found.notes.find(state, "notes") || !found.frames.find(state, "frames") ||
      !found.tracing.find(frame, "tracing") || !found.versions.find(frame, "versions") ||
      !found.marks.find(frame, "marks") || !found.pending.find(frame, "pending"))
    return nullptr;
  found.ask = Py_NewRef(ask);
  states = found;
  Py_RETURN_NONE;
}

PyObject* top_in_python = nullptr;

PyObject* bind_top(PyObject*, PyObject* function) {
  Py_XDECREF(std::exchange(top_in_python, Py_NewRef(function)));
  Py_RETURN_NONE;
}

PyObject* top(PyObject*, PyObject*) {
  PyObject* state = own_state();
  if (!state) return nullptr;
  PyObject* frame = frame_of(state);
  if (states.tracing.of(frame) == Py_False) return Py_NewRef(frame);
  return PyObject_CallNoArgs(top_in_python);
}

PyObject* bind_scopes(PyObject*, PyObject* args) {
  PyObject *modes, *kind, *mark;
  Scopes found;
  if (!PyArg_ParseTuple(args, "OOO!", &modes, &kind, &PyDict_Type, &mark)) return nullptr;
  if (!found.no_grad.find(kind, "no_grad") || !found.dtype.find(kind, "dtype"))
    return nullptr;
  found.count = scopes.count;
  found.modes = Py_NewRef(modes);
  found.mark = Py_NewRef(mark);
  scopes = found;
  Py_RETURN_NONE;
}

PyObject* count_scopes(PyObject*, PyObject* x) {
  const long long count = number(x);
  if (count < 0) return PyErr_Occurred() ? nullptr : (PyErr_BadArgument(), nullptr);
  scopes.count = count;
  Py_RETURN_NONE;
}

PyObject* next_serial(PyObject*, PyObject*) { return PyLong_FromLongLong(serials++); }

PyObject* note_run(PyObject*, PyObject*) {
  mark_run();
  Py_RETURN_NONE;
}

PyObject* since_run(PyObject*, PyObject* node) {
  if (!PyObject_TypeCheck(node, nodes.kind)) return PyErr_BadArgument(), nullptr;
  return PyLong_FromLongLong(made_since_run(node));
}

PyObject* node(PyObject*, PyObject* const* args, Py_ssize_t given) {
  if (!counted("node", given, 9)) return nullptr;
  if (!PyTuple_CheckExact(args[2])) {
    PyErr_SetString(PyExc_TypeError, "the inputs of a node are a tuple");
    return nullptr;
  }
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(args[2]); k++)
    if (!PyObject_TypeCheck(PyTuple_GET_ITEM(args[2], k), nodes.kind)) {
      PyErr_SetString(PyExc_AttributeError, "the inputs of a node are nodes");
      return nullptr;
    }
  return make({reinterpret_cast<PyTypeObject*>(args[0]), args[1], args[2], args[3],
               args[4], depth_over(args[2]), args[5], args[6], args[7],
               args[8] == Py_True});
}

PyObject* results(PyObject*, PyObject* const* args, Py_ssize_t given) {
  if (!counted("results", given, 3)) return nullptr;
  return make_results(reinterpret_cast<PyTypeObject*>(args[0]), args[1], args[2]);
}

}  // namespace

PyObject* make_results(PyTypeObject* kind, PyObject* node, PyObject* ops) {
  PyObject* types = nodes.type.of(node);
  bool hidden = !PyObject_GC_IsTracked(node);
  long long depth = number(nodes.depth.of(node)) + 1;
  Ref found(PyTuple_New(PyTuple_GET_SIZE(ops)));
  if (!found) return nullptr;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(ops); k++) {
    Ref inputs(PyTuple_Pack(1, node));
    if (!inputs) return nullptr;
    PyObject* made = make({kind, PyTuple_GET_ITEM(ops, k), inputs.get(),
                           PyTuple_GET_ITEM(types, k), Py_None, depth,
                           nodes.code.of(node), nodes.offset.of(node),
                           nodes.metadata.of(node), hidden});
    if (!made) return nullptr;
    PyTuple_SET_ITEM(found.get(), k, made);
  }
  hide(found.get());
  return found.release();
}

namespace {

void show(PyObject* x) {
  if (!PyObject_GC_IsTracked(x)) PyObject_GC_Track(x);
}

void show_node(PyObject* x) {
  show(x);
  PyObject* inputs = nodes.inputs.of(x);
  if (PyTuple_GET_SIZE(inputs)) show(inputs);
}

// The results of a node of several that somebody holds.
PyObject* living_results(PyObject*, PyObject* node) {
  if (!PyObject_TypeCheck(node, nodes.kind)) return PyErr_BadArgument(), nullptr;
  Ref found(PyList_New(0));
  LivingResults* results = results_of(node);
  for (LivingResult* x = results ? results->first : nullptr; found && x; x = x->next)
    if (Py_REFCNT(x->node) > 0 && PyList_Append(found.get(), x->node) < 0) return nullptr;
  return found.release();
}

PyObject* track(PyObject*, PyObject* x) {
  if (PyTuple_CheckExact(x)) {
    if (PyTuple_GET_SIZE(x)) show(x);
  } else if (PyList_CheckExact(x)) {
    if (!are_nodes(x)) return nullptr;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(x); k++) show_node(PyList_GET_ITEM(x, k));
  } else if (PyObject_TypeCheck(x, nodes.kind)) {
    show_node(x);
  }
  Py_RETURN_NONE;
}

}  // namespace

void show_below(const std::vector<PyObject*>& roots) {
  Lease w;
  for (PyObject* x : roots) w->nodes.of(x);
  for (size_t k = 0; k < w->nodes.size(); k++) {
    PyObject* x = w->nodes[k];
    show_node(x);
    PyObject* inputs = nodes.inputs.of(x);
    for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(inputs); j++)
      w->nodes.of(PyTuple_GET_ITEM(inputs, j));
  }
}

PyMethodDef node_functions[] = {
    {"bind_nodes", bind_nodes, METH_VARARGS,
     "bind_nodes(Tensor, TupleType, warn, every): what nodes are made of."},
    {"next_serial", next_serial, METH_NOARGS, "next_serial(): the number of a next node."},
    {"mark_run", note_run, METH_NOARGS, "mark_run(): something ran now."},
    {"made_since_run", since_run, METH_O,
     "made_since_run(node): how many nodes were made from the last run to this one."},
    {"bind_states", bind_states, METH_VARARGS,
     "bind_states(thread_state, ThreadState, Frame): where threads have their notes."},
    {"bind_top", bind_top, METH_O, "bind_top(function): its twin."},
    {"top", top, METH_NOARGS, "top(): as graph/frame.py."},
    {"bind_scopes", bind_scopes, METH_VARARGS,
     "bind_scopes(modes, Modes, mark): what tells whether a task is without gradients."},
    {"count_scopes", count_scopes, METH_O, "count_scopes(n): how many tasks may be."},
    {"node", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(node)), METH_FASTCALL,
     "node(class, op, inputs, type, stored, code, offset, notes, closed)"},
    {"results", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(results)),
     METH_FASTCALL, "results(class, node, ops): a node for each result of a node."},
    {"living_results", living_results, METH_O,
     "living_results(node): those of a node of several that somebody holds, in order."},
    {"track", track, METH_O,
     "track(x): let the collector see a tuple, or nodes and what these read."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace treadle
