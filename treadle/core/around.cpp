// What is around a request and decides what becomes of it (runtime/around.py).
#include "pool.hpp"

namespace treadle {
namespace {

struct Known {
  PyObject *python = nullptr, *recording, *events, *watchers;  // who is told of runs
  PyObject *runner = nullptr, *engines;                        // by their names
  PyObject *queued = nullptr, *late;
  Slot around, options, transactions, observers;
};
Known known;

// (function, Modes, ThreadState, of_recording, events, watchers)
PyObject* bind_settings(PyObject*, PyObject* args) {
  PyObject *python, *modes, *state, *recording, *events, *watchers;
  if (!PyArg_ParseTuple(args, "OOOOO!O!", &python, &modes, &state, &recording, &PyList_Type,
                        &events, &PyList_Type, &watchers) ||
      !known.around.find(modes, "around") || !known.observers.find(state, "observers"))
    return nullptr;
  known.python = Py_NewRef(python), known.recording = Py_NewRef(recording);
  known.events = Py_NewRef(events), known.watchers = Py_NewRef(watchers);
  Py_RETURN_NONE;
}

// (function, engines, Modes)
PyObject* bind_runner(PyObject*, PyObject* args) {
  PyObject *runner, *engines, *modes;
  if (!PyArg_ParseTuple(args, "OO!O", &runner, &PyDict_Type, &engines, &modes) ||
      !known.options.find(modes, "options") ||
      !known.transactions.find(modes, "transactions"))
    return nullptr;
  known.runner = Py_NewRef(runner), known.engines = Py_NewRef(engines);
  Py_RETURN_NONE;
}

// (pools, errors)
PyObject* bind_queue(PyObject*, PyObject* args) {
  PyObject *queued, *late;
  if (!PyArg_ParseTuple(args, "O!O!", &PySet_Type, &queued, &PyDict_Type, &late)) return nullptr;
  known.queued = Py_NewRef(queued), known.late = Py_NewRef(late);
  Py_RETURN_NONE;
}

// What a context variable has now; null where Python has raised.
Ref value_of(PyObject* variable) {
  PyObject* value = nullptr;
  if (PyContextVar_Get(variable, nullptr, &value) < 0) return Ref();
  return Ref(value);
}

// As `runner` of engines/base.py, which is asked where options are others than the last.
Ref runner_of(PyObject* modes) {
  static PyObject* const name = PyUnicode_InternFromString("engine");
  static PyObject *last = nullptr, *last_options = nullptr;
  Ref options = Ref::to(known.options.of(modes));
  if (options.get() == last_options) {
    Ref noted = Ref::to(last), asked(PyObject_GetAttr(options.get(), name));
    PyObject* made = asked ? PyDict_GetItemWithError(known.engines, asked.get()) : nullptr;
    if (PyErr_Occurred()) return Ref();
    if (made == PyTuple_GET_ITEM(noted.get(), 0)) return noted;
  }
  Ref found(PyObject_CallOneArg(known.runner, modes));
  if (!found) return found;
  Ref before(std::exchange(last, Py_NewRef(found.get())));
  Ref options_before(std::exchange(last_options, options.release()));
  return found;
}

}  // namespace

PyObject* settings(PyObject*, PyObject*) {
  Ref modes(value_of(scopes.modes)), recorded(modes ? value_of(known.recording) : Ref());
  PyObject* state = recorded ? own_state() : nullptr;
  if (!state) return nullptr;
  PyObject* around = known.around.of(modes.get());
  if (around == Py_None || recorded.get() != Py_None || PyList_GET_SIZE(known.events) ||
      PyList_GET_SIZE(known.watchers) || PyList_GET_SIZE(known.observers.of(state)))
    Py_RETURN_NONE;
  PyObject* frame = frame_of(state);
  if (states.tracing.of(frame) != Py_False) return PyObject_CallNoArgs(known.python);
  if (PyDict_GET_SIZE(states.versions.of(frame))) {
    if (PyTuple_GET_SIZE(known.transactions.of(modes.get()))) Py_RETURN_NONE;
    Ref own = Ref::to(frame);
    const int alone = carries_all(frame);
    if (alone < 0) return nullptr;
    if (!alone) Py_RETURN_NONE;
  }
  Ref runner = runner_of(modes.get());
  if (!runner) return nullptr;
  return Py_NewRef(PyTuple_GET_ITEM(runner.get(), 1) == Py_True ? around : Py_None);
}

int find_around(Around& into) {
  static PyObject *const state = PyUnicode_InternFromString("_state"),
                  *const start = PyUnicode_InternFromString("_start");
  Ref modes = value_of(scopes.modes), runner = modes ? runner_of(modes.get()) : Ref();
  PyObject* own = runner ? own_state() : nullptr;
  if (!own) return -1;
  PyObject *frame = frame_of(own), *pool = PyTuple_GET_ITEM(runner.get(), 2);
  if (pool == Py_None || PyTuple_GET_SIZE(known.transactions.of(modes.get())) ||
      states.tracing.of(frame) != Py_False || PySet_GET_SIZE(known.queued) ||
      PyDict_GET_SIZE(known.late))
    return 0;
  into.frame = Ref::to(frame), into.engine = Ref::to(PyTuple_GET_ITEM(runner.get(), 0));
  into.told = states.marks.of(frame) != Py_None;
  into.pool = Ref(PyObject_GetAttr(pool, state));
  if (into.pool.get() == Py_None) into.pool = Ref(PyObject_CallMethodNoArgs(pool, start));
  return into.pool ? 1 : -1;
}

PyMethodDef around_functions[] = {
    {"bind_settings", bind_settings, METH_VARARGS,
     "bind_settings(function, Modes, ThreadState, of_recording, events, watchers): its twin, "
     "and who looks on."},
    {"bind_runner", bind_runner, METH_VARARGS, "bind_runner(function, engines, Modes)"},
    {"bind_queue", bind_queue, METH_VARARGS, "bind_queue(pools, errors): of what is queued."},
    {"settings", settings, METH_NOARGS, "settings(): as runtime/around.py."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace treadle
