// Assignments: the versions that they make, and letting go of those that were carried out
// (graph/variable.py, graph/thread.py).
#include "walk.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

namespace treadle {
namespace {

// What is known of Variables and of the frames that they are assigned in.
struct Known {
  PyTypeObject *variable = nullptr, *version = nullptr, *update = nullptr;
  Slot committed, type, assigned, gradient;  // of a Variable: the op of its Updates
  Slot frozen, trainable;
  Slot tracing, versions, waiting, pending;  // of a frame
  Slot dtype, shape;                         // of a type
  PyObject* of;
};
Known known;

PyObject* bind_assign(PyObject*, PyObject* args) {
  PyObject *variable, *version, *update, *frame, *type;
  if (!PyArg_ParseTuple(args, "O!O!O!O!O!", &PyType_Type, &variable, &PyType_Type, &version,
                        &PyType_Type, &update, &PyType_Type, &frame, &PyType_Type, &type))
    return nullptr;
  Known k;
  const std::tuple<Slot*, PyObject*, const char*> names[] = {
      {&k.committed, variable, "committed"}, {&k.type, variable, "_type"},
      {&k.assigned, variable, "assigned"},   {&k.gradient, variable, "_grad"},
      {&k.frozen, variable, "frozen"},       {&k.trainable, variable, "_trainable"},
      {&k.tracing, frame, "tracing"},
      {&k.versions, frame, "versions"},      {&k.waiting, frame, "waiting"},
      {&k.pending, frame, "pending"},        {&k.dtype, type, "dtype"},
      {&k.shape, type, "shape"}};
  for (auto& [slot, kind, name] : names)
    if (!slot->find(kind, name)) return nullptr;
  k.variable = reinterpret_cast<PyTypeObject*>(Py_NewRef(variable));
  k.version = reinterpret_cast<PyTypeObject*>(Py_NewRef(version));
  k.update = reinterpret_cast<PyTypeObject*>(Py_NewRef(update));
  k.of = PyUnicode_InternFromString("variable");
  known = k;
  Py_RETURN_NONE;
}

// The version of a Variable that a frame sees, borrowed; null where it has none yet, or
// something was raised.
PyObject* seen_in(PyObject* versions, PyObject* variable, PyObject* id) {
  PyObject* newer = PyDict_GetItemWithError(versions, id);
  return newer || PyErr_Occurred() ? newer : known.committed.of(variable);
}

// Whether a value without a number yet is as a Variable is, but for the names of axes.
bool fits(PyObject* value, PyObject* variable) {
  if (Py_TYPE(value) != nodes.kind || !waits(value)) return false;
  PyObject *is = nodes.type.of(value), *wanted = known.type.of(variable);
  if (is == wanted) return true;
  if (Py_TYPE(is) != Py_TYPE(wanted)) return false;  // of several results
  PyObject *shape = known.shape.of(is), *other = known.shape.of(wanted);
  if (known.dtype.of(is) != known.dtype.of(wanted)) return false;
  const Py_ssize_t rank = PyTuple_GET_SIZE(shape);
  if (PyTuple_GET_SIZE(other) != rank) return false;
  for (Py_ssize_t k = 0; k < rank; k++) {
    PyObject *m = PyTuple_GET_ITEM(shape, k), *n = PyTuple_GET_ITEM(other, k);
    if (!PyLong_CheckExact(m) || !PyLong_CheckExact(n) || number(m) != number(n)) return false;
  }
  return true;
}

struct Assigned {
  PyObject *variable, *base;  // borrowed: the pairs, and the new node, refer to them
  Ref id, node;
};

// (frame, pairs): the Updates, if that takes no more than to make and to see them; else
// None, and nothing has happened. The caller holds the lock of assignments.
PyObject* assign(PyObject*, PyObject* args) {
  PyObject *frame, *pairs;
  if (!PyArg_ParseTuple(args, "OO!", &frame, &PyList_Type, &pairs)) return nullptr;
  if (!has_no_watchers() || known.tracing.of(frame) != Py_False) Py_RETURN_NONE;
  PyObject* state = own_state();
  Site site;
  if (!state || !locate(site)) return nullptr;
  Ref notes = Ref::to(states.notes.of(state)), versions = Ref::to(known.versions.of(frame));
  std::vector<Assigned> every;
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(pairs); k++) {
    PyObject *variable, *value;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(pairs, k), "OO", &variable, &value)) return nullptr;
    if (!PyObject_TypeCheck(variable, known.variable) || !fits(value, variable))
      Py_RETURN_NONE;
    for (const Assigned& x : every)
      if (x.variable == variable) Py_RETURN_NONE;
    Ref id(PyLong_FromVoidPtr(variable));
    PyObject* base = id ? seen_in(versions.get(), variable, id.get()) : nullptr;
    PyObject* op = known.assigned.of(variable);
    if (PyErr_Occurred()) return nullptr;
    if (!base || !op) Py_RETURN_NONE;
    PyTypeObject* kind = Py_TYPE(nodes.op.of(base));
    if (kind != known.version && kind != known.update) Py_RETURN_NONE;
    Ref inputs(PyTuple_Pack(2, base, value));
    if (!inputs) return nullptr;
    Ref node(make({nodes.kind, op, inputs.get(), known.type.of(variable), Py_None,
                   depth_over(inputs.get()), site.code.get(), site.offset.get(), notes.get(),
                   false}));
    if (!node) return nullptr;
    every.push_back({variable, base, std::move(id), std::move(node)});
  }
  Ref found(PyList_New(0));
  if (!found) return nullptr;
  for (const Assigned& x : every) {  // the collector may have run, and others assigned
    PyObject* now = seen_in(versions.get(), x.variable, x.id.get());
    if (now != x.base) return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
    if (PyList_Append(found.get(), x.node.get()) < 0) return nullptr;
  }
  for (const Assigned& x : every)
    if (PySet_Add(known.waiting.of(frame), nodes.serial.of(x.node.get())) < 0 ||
        PyDict_SetItem(versions.get(), x.id.get(), x.node.get()) < 0 ||
        PyList_Append(known.pending.of(frame), x.node.get()) < 0)
      return nullptr;
  return found.release();
}

// Whether the serial of a node is in a set; -1 where Python has raised something.
int is_in(PyObject* set, PyObject* node) {
  return PySet_Contains(set, nodes.serial.of(node));
}

// The last update before one that is yet to be carried out (graph/thread.py), null if
// there is none; whether nothing was raised.
bool find_below(PyObject* update, PyObject* waiting, PyObject*& found) {
  found = nullptr;
  while (PyTuple_GET_SIZE(nodes.inputs.of(update))) {
    update = PyTuple_GET_ITEM(nodes.inputs.of(update), 0);
    const int waits_there = is_in(waiting, update);
    if (waits_there) return found = update, waits_there > 0;
    if (!waits(update)) break;
  }
  return true;
}

// Sees the versions before some updates, as Frame.forget does.
bool forget(PyObject* frame, PyObject* updates) {
  Ref versions = Ref::to(known.versions.of(frame)), waiting = Ref::to(known.waiting.of(frame));
  std::vector<std::pair<long long, Ref>> every;  // what was seen goes when all is done
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(updates); k++) {
    PyObject* x = PyList_GET_ITEM(updates, k);
    every.emplace_back(number(nodes.serial.of(x)), Ref::to(x));
    if (PySet_Discard(waiting.get(), nodes.serial.of(x)) < 0) return false;
  }
  std::stable_sort(every.begin(), every.end(),
                   [](const auto& x, const auto& y) { return x.first > y.first; });
  for (auto& [serial, update] : every) {
    Ref variable(PyObject_GetAttr(nodes.op.of(update.get()), known.of));
    Ref id(variable ? PyLong_FromVoidPtr(variable.get()) : nullptr);
    if (!id) return false;
    PyObject* seen = update.get();
    while (seen) {
      const int waits_there = is_in(waiting.get(), seen);
      if (waits_there < 0) return false;
      if (waits_there) break;
      PyObject* below;
      if (!find_below(seen, waiting.get(), below)) return false;
      PyObject* now = PyDict_GetItemWithError(versions.get(), id.get());
      if (!now && PyErr_Occurred()) return false;
      if (now == seen && (below ? PyDict_SetItem(versions.get(), id.get(), below)
                                : PyDict_DelItem(versions.get(), id.get())) < 0)
        return false;
      seen = below;
    }
  }
  return true;
}

// (frame, updates): as Frame.forget.
PyObject* forget_updates(PyObject*, PyObject* args) {
  PyObject *frame, *updates;
  if (!PyArg_ParseTuple(args, "OO!", &frame, &PyList_Type, &updates) || !are_nodes(updates))
    return nullptr;
  if (!forget(frame, updates)) return nullptr;
  Py_RETURN_NONE;
}

// (frame): as Frame.alone.
PyObject* alone(PyObject*, PyObject* frame) {
  const int told = carries_all(frame);
  return told < 0 ? nullptr : PyBool_FromLong(told);
}

// (variables, gradients, fresh): as give_gradients outside of transactions; nodes that are
// yet to run read Variables, which hold them: a cycle, which the collector is to see.
PyObject* give(PyObject*, PyObject* args) {
  PyObject *of, *given;
  int fresh;
  if (!PyArg_ParseTuple(args, "OOp", &of, &given, &fresh)) return nullptr;
  Ref variables(PySequence_Tuple(of)), gradients(PySequence_Tuple(given));
  if (!variables || !gradients) return nullptr;
  const Py_ssize_t count = PyTuple_GET_SIZE(variables.get());
  const bool none = !PyTuple_GET_SIZE(gradients.get());
  if (!none && PyTuple_GET_SIZE(gradients.get()) != count) return PyErr_BadArgument(), nullptr;
  std::vector<PyObject*> waiting;
  std::vector<Ref> before;  // which go when all is done: there may be Python in their end
  for (Py_ssize_t k = 0; k < count; k++) {
    PyObject* x = none ? Py_None : PyTuple_GET_ITEM(gradients.get(), k);
    if (!PyObject_TypeCheck(PyTuple_GET_ITEM(variables.get(), k), known.variable) ||
        (x != Py_None && !PyObject_TypeCheck(x, nodes.kind)))
      return PyErr_BadArgument(), nullptr;
    if (x != Py_None && waits(x)) waiting.push_back(x);
    if (fresh && known.gradient.of(PyTuple_GET_ITEM(variables.get(), k)) != Py_None)
      Py_RETURN_FALSE;
  }
  if (!waiting.empty()) show_below(waiting);
  for (Py_ssize_t k = 0; k < count; k++) {
    PyObject*& place = known.gradient.of(PyTuple_GET_ITEM(variables.get(), k));
    before.emplace_back(place);
    place = Py_NewRef(none ? Py_None : PyTuple_GET_ITEM(gradients.get(), k));
  }
  Py_RETURN_TRUE;
}

// (Variables, the class of the op of rows): the ids of those that train and hold a
// gradient, and these; None where rows of one are frozen, or a gradient is rows.
PyObject* held_gradients(PyObject*, PyObject* args) {
  PyObject *of, *rows;
  if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &of, &rows)) return nullptr;
  Ref ids(PyList_New(0)), found(PyList_New(0));
  if (!ids || !found) return nullptr;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(of); k++) {
    PyObject* x = PyTuple_GET_ITEM(of, k);
    if (!PyObject_TypeCheck(x, known.variable)) return PyErr_BadArgument(), nullptr;
    PyObject* gradient = known.gradient.of(x);
    if (!PyObject_TypeCheck(gradient, nodes.kind) || known.trainable.of(x) != Py_True) continue;
    if (known.frozen.of(x) != Py_None ||
        reinterpret_cast<PyObject*>(Py_TYPE(nodes.op.of(gradient))) == rows)
      Py_RETURN_NONE;
    Ref id(PyLong_FromVoidPtr(x));
    if (!id || PyList_Append(ids.get(), id.get()) < 0 ||
        PyList_Append(found.get(), gradient) < 0)
      return nullptr;
  }
  PyObject* every = PyList_AsTuple(ids.get());
  return every ? Py_BuildValue("NN", every, found.release()) : nullptr;
}

PyObject* carried = nullptr;  // by serials of updates: the run that carries one out

PyObject* bind_carried(PyObject*, PyObject* runs) {
  if (!PyDict_Check(runs)) return PyErr_BadArgument(), nullptr;
  Py_XDECREF(std::exchange(carried, Py_NewRef(runs)));
  Py_RETURN_NONE;
}

}  // namespace

int carries_all(PyObject* frame) {
  Ref versions = Ref::to(known.versions.of(frame)), pending = Ref::to(known.pending.of(frame));
  Py_ssize_t newest = 0;
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(pending.get()); k++) {
    PyObject* x = PyList_GET_ITEM(pending.get(), k);
    Ref variable(PyObject_GetAttr(nodes.op.of(x), known.of));
    Ref id(variable ? PyLong_FromVoidPtr(variable.get()) : nullptr);
    PyObject* seen = id ? PyDict_GetItemWithError(versions.get(), id.get()) : nullptr;
    if (PyErr_Occurred()) return -1;
    if (!seen) return 0;
    newest += seen == x;
    for (Py_ssize_t j = 0; seen != x && j < k; j++)  // nobody sees what followed it
      if (PyList_GET_ITEM(pending.get(), j) == seen) return 0;
  }
  return newest == PyDict_GET_SIZE(versions.get());
}

bool can_carry_out(PyObject* updates) {
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(updates); k++) {
    PyObject* x = PyList_GET_ITEM(updates, k);
    if (!waits(x) || PyDict_Contains(carried, nodes.serial.of(x))) return PyErr_Clear(), false;
  }
  return true;
}

bool note_carried_out(PyObject* frame, PyObject* updates) {
  Ref pending = Ref::to(known.pending.of(frame));
  for (Py_ssize_t k = PyList_GET_SIZE(pending.get()); k--;)
    for (Py_ssize_t j = 0; j < PyList_GET_SIZE(updates); j++)
      if (PyList_GET_ITEM(pending.get(), k) == PyList_GET_ITEM(updates, j)) {
        if (PyList_SetSlice(pending.get(), k, k + 1, nullptr) < 0) return false;
        break;
      }
  return forget(frame, updates);
}

PyMethodDef assign_functions[] = {
    {"bind_assign", bind_assign, METH_VARARGS,
     "bind_assign(Variable, Version, Update, Frame, Type): what assignments need."},
    {"assign", assign, METH_VARARGS,
     "assign(frame, pairs): the Updates of assignments, or None where it is more."},
    {"give_gradients", give, METH_VARARGS,
     "give_gradients(variables, gradients, fresh): as graph/gradients.py."},
    {"held_gradients", held_gradients, METH_VARARGS,
     "held_gradients(variables, RowsToDense): ids and gradients of those that hold some."},
    {"alone", alone, METH_O, "alone(frame): as Frame.alone, outside of transactions."},
    {"bind_carried", bind_carried, METH_O, "bind_carried(runs): as graph/carried.py."},
    {"forget_updates", forget_updates, METH_VARARGS,
     "forget_updates(frame, updates): see the versions before what was carried out."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace treadle
