// What the core knows of Python's objects: references that are owned, and the slots of
// our own classes at the offsets that their member descriptors tell. The public C API
// only.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#if defined(__GNUC__) || defined(__clang__)
#define TREADLE_PREFETCH(p) __builtin_prefetch(p)
#else
#define TREADLE_PREFETCH(p) ((void)(p))
#endif

namespace treadle {

// A reference that is owned here; null where Python has raised something.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : x_(owned) {}
  Ref(Ref&& other) noexcept : x_(other.release()) {}
  Ref(const Ref& other) : x_(Py_XNewRef(other.x_)) {}
  Ref& operator=(const Ref&) = delete;
  Ref& operator=(Ref&& other) noexcept {
    PyObject* before = std::exchange(x_, other.release());
    Py_XDECREF(before);
    return *this;
  }
  ~Ref() { Py_XDECREF(x_); }

  static Ref to(PyObject* borrowed) { return Ref(Py_XNewRef(borrowed)); }
  PyObject* get() const { return x_; }
  PyObject* release() { return std::exchange(x_, nullptr); }
  explicit operator bool() const { return x_ != nullptr; }

 private:
  PyObject* x_ = nullptr;
};

// What a weak reference refers to, borrowed; null or None where that is gone.
inline PyObject* target_of(PyObject* ref) {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* last = nullptr;
  if (PyWeakref_GetRef(ref, &last) < 0) PyErr_Clear();
  Py_XDECREF(last);
#else
  PyObject* last = PyWeakref_GetObject(ref);
#endif
  return last;
}

// A slot of a class in Python.
class Slot {
 public:
  // Finds the slot of a name; whether there is one (else an exception is set).
  bool find(PyObject* kind, const char* name);

  PyObject*& of(PyObject* x) const {
    return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(x) + offset_);
  }
  // Puts something there, and lets go of what was there before.
  void put(PyObject* x, PyObject* value) const {
    PyObject*& place = of(x);
    PyObject* before = place;
    place = Py_NewRef(value);
    Py_XDECREF(before);
  }

 private:
  Py_ssize_t offset_ = 0;
};

// The slots of a node (graph/tensor.py), and what every new one needs.
struct Nodes {
  PyTypeObject* kind = nullptr;
  Slot op, inputs, type, serial, depth, stored, mark, code, offset, name, metadata;
  Slot results;              // LivingResults of a node of several, the place of each
  PyTypeObject* several = nullptr;  // the type of such a node's type
  PyObject* warn = nullptr;  // called with every so many nodes
  long long every = 0;       // a mask of serials
};
extern Nodes nodes;

// The scopes without gradients (graph/frame.py): how many tasks are in some, what tells
// whether this one is, and the mark of nodes that are made there.
struct Scopes {
  long long count = 0;
  PyObject *modes = nullptr, *mark = nullptr;
  Slot no_grad, dtype;
};
extern Scopes scopes;

// A copy of a mark without what tells how its node was made.
PyObject* without_recipe(PyObject* mark);

extern PyObject* part;  // the mark of what lies in data (graph/marks.py)

// The array of a Future, borrowed, or the value itself if it is none; whether that has
// been written, and no run is about to write over it (graph/resident.py).
PyObject* array_behind(PyObject* value);
bool has_arrived(PyObject* value);

// Of a node of several results those that live, in order, and the place of a result
// there, which ends with it: nobody is kept alive.
struct LivingResult;
struct LivingResults {
  PyObject_HEAD
  LivingResult* first;
};
struct LivingResult {
  PyObject_HEAD
  PyObject* node;  // borrowed
  LivingResults* of;
  LivingResult* next;
};
LivingResults* results_of(PyObject* node);  // null if there are none
bool add_result_types();

inline bool waits(PyObject* node) { return nodes.stored.of(node) == Py_None; }
inline long long number(PyObject* x) { return PyLong_AsLongLong(x); }

// A node with all its fields, out of the collector's sight if it is to be hidden; null
// where Python has raised something.
struct New {
  PyTypeObject* kind;
  PyObject *op, *inputs, *type, *stored;
  long long depth;
  PyObject *code, *offset, *notes;
  bool hidden;
};
PyObject* make(const New& made);
// A node as it is made by a call of the library's, where nobody is to be told of it; the
// results of a node of several. Null where Python has raised something.
PyObject* make_here(PyTypeObject* kind, PyObject* op, PyObject* inputs, PyObject* type,
                    PyObject* stored);
PyObject* make_results(PyTypeObject* kind, PyObject* node, PyObject* ops);
// Notes that something ran now; how many nodes were made from then to this one.
void mark_run();
long long made_since_run(PyObject* node);
long long depth_over(PyObject* inputs);
// Hides a tuple of nodes from the collector, which sees none of these.
void hide(PyObject* tuple);
// Whether notes are none, or plain data alone.
bool are_plain(PyObject* notes);

// The state of this thread (graph/thread.py), borrowed; null where Python has raised.
struct States {
  PyObject* ask = nullptr;
  Slot notes, frames, tracing, versions, marks, pending;
};
extern States states;
PyObject* own_state();

// The frame that a thread assigns in, borrowed; whether all versions that it sees are the
// newest of those that it carries out: 1, 0, or -1 where Python has raised.
inline PyObject* frame_of(PyObject* state) {
  PyObject* frames = states.frames.of(state);
  return PyList_GET_ITEM(frames, PyList_GET_SIZE(frames) - 1);
}
int carries_all(PyObject* frame);

// What is around a request that the core may do by itself: the frame, whether somebody is
// told of what it carries out, the engine, and the pool that small programs run on.
struct Around {
  Ref frame, engine, pool;
  bool told = false;
};
int find_around(Around& into);  // 1; 0 where it may not; -1 where Python has raised
PyObject* settings(PyObject*, PyObject*);  // as runtime/around.py

// The user's line: the innermost frame whose code is not the library's; false where
// Python has raised something.
struct Site {
  Ref code, offset;
};
bool locate(Site& site);
// Whether nobody is to be told of new nodes, nor a line held for them.
bool has_no_watchers();

// Whether some updates wait to be carried out, and no run is about to do it; that they
// were, so that a frame sees and runs them no more (false where Python has raised).
bool can_carry_out(PyObject* updates);
bool note_carried_out(PyObject* frame, PyObject* updates);

// The functions of each file, and what it needs of the graph's classes.
extern PyMethodDef node_functions[], walk_functions[], value_functions[];
extern PyMethodDef call_functions[], row_functions[], look_functions[];
extern PyMethodDef run_functions[], loop_functions[], size_functions[];
extern PyMethodDef assign_functions[], step_functions[], agenda_functions[];
extern PyMethodDef around_functions[];
bool add_call_types(PyObject* module);
bool add_run_types(PyObject* module);
bool add_pool_type(PyObject* module);
bool add_value_types(PyObject* module);

}  // namespace treadle
