// Values of nodes: what a run leaves, who looks at it, and letting go of many nodes.
#include "arrays.hpp"

#include <cstring>

namespace treadle {
namespace {

// The slots of a Future (graph/resident.py).
struct Futures {
  PyTypeObject* kind = nullptr;
  Slot type, home, array, before, run, node;
};
Futures futures;

PyObject* bind_futures(PyObject*, PyObject* kind) {
  Futures found;
  if (!PyType_Check(kind) || !found.type.find(kind, "type") ||
      !found.home.find(kind, "home") || !found.array.find(kind, "array") ||
      !found.before.find(kind, "before") || !found.run.find(kind, "run") ||
      !found.node.find(kind, "_node"))
    return nullptr;
  found.kind = reinterpret_cast<PyTypeObject*>(Py_NewRef(kind));
  futures = found;
  Py_RETURN_NONE;
}

PyObject* forget(PyObject*, PyObject* list) {
  if (!PyList_Check(list)) return PyErr_BadArgument(), nullptr;
  for (Py_ssize_t k = PyList_GET_SIZE(list) - 1; k >= 0; k--) {
    if (k >= PyList_GET_SIZE(list)) continue;  // a finalizer has taken some
    // The memory of what goes soon is fetched, and what a nearer one refers to.
    if (k >= 15) TREADLE_PREFETCH(PyList_GET_ITEM(list, k - 15));
    PyObject* near = k >= 7 ? PyList_GET_ITEM(list, k - 7) : nullptr;
    if (near && PyObject_TypeCheck(near, nodes.kind)) {
      TREADLE_PREFETCH(nodes.inputs.of(near));
      TREADLE_PREFETCH(nodes.serial.of(near));
    }
    PyObject* x = PyList_GET_ITEM(list, k);
    PyList_SET_ITEM(list, k, Py_NewRef(Py_None));
    Py_DECREF(x);
  }
  if (PyList_SetSlice(list, 0, PyList_GET_SIZE(list), nullptr) < 0) return nullptr;
  Py_RETURN_NONE;
}

// A Future of an array that a run writes. It is in no cycle, so the collector need not
// see it.
PyObject* future_of(PyObject* node, PyObject* array, PyObject* run) {
  PyObject* made = PyType_GenericAlloc(futures.kind, 0);
  if (!made) return nullptr;
  futures.type.of(made) = Py_NewRef(nodes.type.of(node));
  futures.home.of(made) = Py_NewRef(Py_None);
  futures.array.of(made) = Py_NewRef(array);
  futures.before.of(made) = Py_NewRef(Py_None);
  futures.run.of(made) = Py_NewRef(run);
  futures.node.of(made) = Py_NewRef(Py_None);
  PyObject_GC_UnTrack(made);
  return made;
}

// The mark of a node that is left: how it was made is noted, or does not matter any more.
PyObject* mark_left(PyObject* node, bool noted) {
  PyObject* mark = nodes.mark.of(node);
  if (!PyDict_Check(mark) && !noted) return Py_NewRef(mark);
  Ref made(PyDict_Check(mark) ? without_recipe(mark) : PyDict_New());
  if (!made || !noted) return made.release();
  Ref recipe(PyTuple_Pack(2, nodes.op.of(node), nodes.inputs.of(node)));
  static PyObject* const name = PyUnicode_InternFromString("recipe");
  if (!recipe || PyDict_SetItem(made.get(), name, recipe.get()) < 0) return nullptr;
  return made.release();
}

PyObject* leave(PyObject*, PyObject* args) {
  PyObject *every, *arrays, *run, *leaf;
  int noted;
  if (!PyArg_ParseTuple(args, "O!O!OOp", &PyList_Type, &every, &PyList_Type, &arrays, &run,
                        &leaf, &noted))
    return nullptr;
  const Py_ssize_t count = PyList_GET_SIZE(every);
  if (PyList_GET_SIZE(arrays) != count) {
    PyErr_SetString(PyExc_ValueError, "as many nodes as arrays are to be left");
    return nullptr;
  }
  // All that can fail comes first: nodes are left together or not at all.
  Ref values(PyList_New(count)), marks(PyList_New(count)), empty(PyTuple_New(0));
  if (!values || !marks || !empty) return nullptr;
  for (Py_ssize_t k = 0; k < count; k++) {
    PyObject *node = PyList_GET_ITEM(every, k), *array = PyList_GET_ITEM(arrays, k);
    PyObject* made = run == Py_None ? Py_NewRef(array) : future_of(node, array, run);
    if (!made) return nullptr;
    PyList_SET_ITEM(values.get(), k, made);
    PyObject* mark = mark_left(node, noted);
    if (!mark) return nullptr;
    PyList_SET_ITEM(marks.get(), k, mark);
  }
  for (Py_ssize_t k = 0; k < count && k < PyList_GET_SIZE(every); k++) {
    Ref node = Ref::to(PyList_GET_ITEM(every, k));
    nodes.stored.put(node.get(), PyList_GET_ITEM(values.get(), k));
    nodes.op.put(node.get(), leaf);
    nodes.inputs.put(node.get(), empty.get());
    nodes.mark.put(node.get(), PyList_GET_ITEM(marks.get(), k));
  }
  Py_RETURN_NONE;
}

PyObject* end_rows(PyObject*, PyObject* args) {
  PyObject *references, *leaf;
  if (!PyArg_ParseTuple(args, "O!O", &PyList_Type, &references, &leaf)) return nullptr;
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(references); k++) {
    Ref row(PyObject_CallNoArgs(PyList_GET_ITEM(references, k)));
    if (!row) return nullptr;
    if (row.get() == Py_None) continue;
    Ref mark(mark_left(row.get(), false));
    if (!mark) return nullptr;
    nodes.op.put(row.get(), leaf);
    nodes.mark.put(row.get(), mark.get());
  }
  Py_RETURN_NONE;
}

PyObject* in_place(PyObject*, PyObject* args) {
  PyObject *versions, *values;
  const char* bytes;
  Py_ssize_t length;
  if (!PyArg_ParseTuple(args, "O!O!y#", &PyTuple_Type, &versions, &PyTuple_Type, &values,
                        &bytes, &length))
    return nullptr;
  const Py_ssize_t count = PyTuple_GET_SIZE(versions);
  if (PyTuple_GET_SIZE(values) != count ||
      length != count * static_cast<Py_ssize_t>(sizeof(int64_t)))
    return PyErr_BadArgument(), nullptr;
  for (Py_ssize_t k = 0; k < count; k++) {
    PyObject *version = PyTuple_GET_ITEM(versions, k), *value = PyTuple_GET_ITEM(values, k);
    int64_t held;
    std::memcpy(&held, bytes + k * sizeof held, sizeof held);
    // Three refer to a value: two versions and the tuple.
    if (Py_REFCNT(version) != held + 1 || nodes.stored.of(version) != value ||
        Py_REFCNT(value) != 3 || !is_alone(futures.array.of(value)))
      Py_RETURN_FALSE;
  }
  Py_RETURN_TRUE;
}

PyObject* addresses(PyObject*, PyObject* arrays) {
  Ref every(PySequence_Fast(arrays, "arrays are in a sequence"));
  if (!every) return nullptr;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(every.get());
  Numbers made(static_cast<size_t>(count));
  if (!made) return nullptr;
  for (Py_ssize_t k = 0; k < count; k++) {
    PyObject* x = PySequence_Fast_GET_ITEM(every.get(), k);
    if (!PyArray_Check(x)) {
      PyErr_SetString(PyExc_TypeError, "only arrays have an address");
      return nullptr;
    }
    made.data[k] = reinterpret_cast<intptr_t>(PyArray_DATA(array_of(x)));
  }
  return made.release();
}

// The value of an operand as memory: of the array itself, so that whoever looks at it is
// counted there and keeps no graph.
int get_buffer(PyObject* x, Py_buffer* view, int flags) {
  static PyObject* const name = PyUnicode_InternFromString("numpy");
  view->obj = nullptr;
  Ref value(PyObject_CallMethodNoArgs(x, name));
  return value ? PyObject_GetBuffer(value.get(), view, flags) : -1;
}

PyType_Slot buffer_slots[] = {
    {Py_tp_doc, const_cast<char*>("What has its value's memory as a buffer.")},
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
    {0, nullptr}};
PyType_Spec buffer_spec = {"treadle.core.native.Buffer", sizeof(PyObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, buffer_slots};

}  // namespace

PyObject* array_behind(PyObject* value) {
  return futures.kind && Py_TYPE(value) == futures.kind ? futures.array.of(value) : value;
}

bool has_arrived(PyObject* value) {
  if (!futures.kind || Py_TYPE(value) != futures.kind) return true;
  static PyObject *const claim = PyUnicode_InternFromString("claim"),
                  *const over = PyUnicode_InternFromString("_over"),
                  *const lost = PyUnicode_InternFromString("lost");
  PyObject* run = futures.run.of(value);
  Ref claimed(PyObject_GetAttr(run, claim)), is_over(PyObject_GetAttr(run, over)),
      is_lost(PyObject_GetAttr(run, lost));
  if (!claimed || !is_over || !is_lost) return PyErr_Clear(), false;
  return claimed.get() == Py_None && is_over.get() == Py_True && is_lost.get() == Py_False;
}

PyMethodDef value_functions[] = {
    {"bind_futures", bind_futures, METH_O, "bind_futures(Future): values yet to come."},
    {"forget", forget, METH_O, "forget(nodes): empty a list, the last node first."},
    {"leave", leave, METH_VARARGS,
     "leave(nodes, arrays, run, leaf, noted): nodes become leaves with arrays, or with "
     "Futures of a run; how each was made may be noted."},
    {"end_rows", end_rows, METH_VARARGS,
     "end_rows(references, leaf): rows that are still there become such leaves."},
    {"in_place", in_place, METH_VARARGS,
     "in_place(versions, values, counts): as graph/references.py."},
    {"addresses", addresses, METH_O, "addresses(arrays): where their elements begin."},
    {nullptr, nullptr, 0, nullptr}};

bool add_value_types(PyObject* module) {
  Ref kind(PyType_FromSpec(&buffer_spec));
  return kind &&
         PyModule_AddType(module, reinterpret_cast<PyTypeObject*>(kind.get())) == 0;
}

}  // namespace treadle
