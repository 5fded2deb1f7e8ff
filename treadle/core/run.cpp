// Small runs, done while Python's lock is held: nothing comes between, so nobody has to be
// told of what is about to change (runtime/at_once.py, which says what is given here;
// `Plans.follow` of runtime/again.py asks for a look and a run at once).
#include "walk.hpp"
#include "pool.hpp"

#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>

namespace treadle {
namespace {

constexpr size_t fields = sizeof(Record) / sizeof(int64_t);
constexpr size_t alignment = 64;

int64_t address(PyObject* array) {
  return reinterpret_cast<intptr_t>(PyArray_DATA(array_of(array)));
}

// -- programs ---------------------------------------------------------------------------

// A result: its number, its buffer and how many bytes into it, what it is written over,
// and the record that has nothing to do then.
struct Result {
  int64_t number, buffer, argument = -1, copy = -1, offset = 0;
  std::vector<npy_intp> shape;
  Ref dtype, constant;
};

constexpr int patience = 8;  // runs for which a program may wait for panels in vain

// What was made of weights by runs before: where that lies, the records that have nothing
// to do, and the arguments it was made of, by weak references, as of a turn.
struct Panels {
  bool awaited = false;  // the program does not run without them
  int misses = 0;        // runs in a row that they were not those of
  std::vector<int64_t> buffers, addresses, ready, arguments;
  Ref arrays, kept;
  int64_t turn = -1;

  // Whether an argument is the array that it was.
  bool same(size_t k, PyObject* array) const {
    PyObject* last = target_of(PyTuple_GET_ITEM(arrays.get(), static_cast<Py_ssize_t>(k)));
    return last == array && !PyArray_ISWRITEABLE(array_of(array));
  }
};

// Bytes of a buffer that are zero before a run.
struct Zeros {
  int64_t buffer, first, size;
};

struct Program {
  std::vector<int64_t> addresses, table, slots, which, shifts, records, arguments;
  std::vector<int64_t> placed, offsets;
  std::vector<Result> results;
  int64_t arena = 0, scratch = 0, status = 0;
  std::vector<Zeros> zeros;
  int64_t own = -1, index = 0;  // the buffer that is a part of the table, which begins there
  Ref kept;  // what the addresses lead to: machine code and constants
  Panels panels;
};

// The number of the last run that writes over arrays where they lie (graph/claim.py).
int64_t last_turn = 0;

// The memory of whichever program runs: that is one at a time.
int64_t memory_of(size_t bytes) {
  static std::unique_ptr<char[]> memory;
  static size_t room = 0;
  if (bytes + alignment > room) {
    memory.reset(new (std::nothrow) char[bytes + alignment]);
    room = memory ? bytes + alignment : 0;
    if (!memory) return 0;
  }
  const auto first = reinterpret_cast<uintptr_t>(memory.get());
  return static_cast<int64_t>((first + alignment - 1) & ~(alignment - 1));
}

struct ProgramObject {
  PyObject_HEAD
  Program* program;
};
PyTypeObject* program_type;

void free_program(PyObject* self) {
  delete reinterpret_cast<ProgramObject*>(self)->program;
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

bool read(PyObject* x, std::vector<int64_t>& into) {
  Given found(x);
  if (found) into.assign(found.data, found.data + found.size);
  return static_cast<bool>(found);
}

PyObject* program(PyObject*, PyObject* args) {
  PyObject *numbers, *results, *kept, *zeros = nullptr;
  long long arena, scratch, table = -1, index = 0;
  if (!PyArg_ParseTuple(args, "O!O!LLO|LLO!", &PyTuple_Type, &numbers, &PyList_Type, &results,
                        &arena, &scratch, &kept, &table, &index, &PyList_Type, &zeros))
    return nullptr;
  auto own = std::make_unique<Program>();
  own->kept = Ref::to(kept);
  own->own = table, own->index = index;
  for (Py_ssize_t k = 0; zeros && k < PyList_GET_SIZE(zeros); k++) {
    long long buffer, first, size;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(zeros, k), "LLL", &buffer, &first, &size))
      return nullptr;
    own->zeros.push_back({buffer, first, size});
  }
  std::vector<int64_t>* const into[] = {
      &own->addresses, &own->table,     &own->slots,  &own->which,  &own->shifts,
      &own->records,   &own->arguments, &own->placed, &own->offsets};
  constexpr Py_ssize_t count = sizeof into / sizeof *into;
  if (PyTuple_GET_SIZE(numbers) != count) return PyErr_BadArgument(), nullptr;
  for (Py_ssize_t k = 0; k < count; k++)
    if (!read(PyTuple_GET_ITEM(numbers, k), *into[k])) return nullptr;
  own->arena = arena;
  own->scratch = scratch;
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(results); k++) {
    Result made;
    long long number, buffer, argument, copy, offset;
    PyObject *shape, *dtype, *constant;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(results, k), "LLLLLO!OO", &number, &buffer,
                          &offset, &argument, &copy, &PyTuple_Type, &shape, &dtype, &constant))
      return nullptr;
    made.offset = offset;
    made.number = number, made.buffer = buffer, made.argument = argument;
    made.copy = copy;
    for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(shape); j++)
      made.shape.push_back(PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, j)));
    PyArray_Descr* descr;
    if (PyErr_Occurred() || !PyArray_DescrConverter(dtype, &descr)) return nullptr;
    made.dtype = Ref(reinterpret_cast<PyObject*>(descr));
    made.constant = Ref::to(constant == Py_None ? nullptr : constant);
    own->results.push_back(std::move(made));
  }
  PyObject* made = program_type->tp_alloc(program_type, 0);
  if (made) reinterpret_cast<ProgramObject*>(made)->program = own.release();
  return made;
}

// Gives a program the panels that runs are to use, or has it await them.
PyObject* keep_panels(PyObject*, PyObject* args) {
  PyObject *program, *numbers, *arrays, *kept;
  long long turn;
  if (!PyArg_ParseTuple(args, "O!O!O!LO", program_type, &program, &PyTuple_Type, &numbers,
                        &PyTuple_Type, &arrays, &turn, &kept))
    return nullptr;
  Panels made;
  std::vector<int64_t>* const into[] = {&made.buffers, &made.addresses, &made.ready,
                                        &made.arguments};
  if (PyTuple_GET_SIZE(numbers) != 4) return PyErr_BadArgument(), nullptr;
  for (Py_ssize_t k = 0; k < 4; k++)
    if (!read(PyTuple_GET_ITEM(numbers, k), *into[k])) return nullptr;
  const Program& own = *reinterpret_cast<ProgramObject*>(program)->program;
  bool good = made.buffers.size() == made.addresses.size() &&
              static_cast<size_t>(PyTuple_GET_SIZE(arrays)) == made.arguments.size();
  for (int64_t n : made.buffers) good &= static_cast<size_t>(n) < own.addresses.size();
  for (int64_t k : made.ready) good &= static_cast<size_t>(k) < own.records.size() / fields;
  for (int64_t k : made.arguments) good &= static_cast<size_t>(k) < own.arguments.size();
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(arrays); k++)
    good &= PyWeakref_Check(PyTuple_GET_ITEM(arrays, k)) != 0;
  if (!good) return PyErr_BadArgument(), nullptr;
  made.awaited = true, made.misses = own.panels.misses;
  made.arrays = Ref::to(arrays), made.kept = Ref::to(kept), made.turn = turn;
  std::swap(reinterpret_cast<ProgramObject*>(program)->program->panels, made);
  Py_RETURN_NONE;
}

PyObject* note_turn(PyObject*, PyObject* number) {
  last_turn = PyLong_AsLongLong(number);
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}

// Whether results have memory of their own each time: that they replace arguments, or are
// of so many bytes at most.
bool are_brief(const std::vector<Result>& results, int64_t most) {
  return std::all_of(results.begin(), results.end(), [most](const Result& x) {
    auto bytes = PyDataType_ELSIZE(reinterpret_cast<PyArray_Descr*>(x.dtype.get()));
    for (npy_intp n : x.shape) bytes *= n;
    return x.argument >= 0 || bytes <= most;
  });
}

// A program that differs from another one in the numbers of its size alone: a tuple of
// addresses that stay, table, shifts, records, offsets of ranges, which of these are its
// own, and the extents of its results one after the other. None where it is larger than
// the limits: of parts, bytes of memory, and bytes of a result.
PyObject* program_like(PyObject*, PyObject* args) {
  PyObject *like, *numbers, *kept;
  long long arena, scratch, parts, bytes, result;
  if (!PyArg_ParseTuple(args, "O!O!LLO(LLL)", program_type, &like, &PyTuple_Type, &numbers,
                        &arena, &scratch, &kept, &parts, &bytes, &result))
    return nullptr;
  if (arena + scratch > bytes) Py_RETURN_NONE;
  auto own = std::make_unique<Program>(*reinterpret_cast<ProgramObject*>(like)->program);
  std::vector<int64_t>* const into[] = {&own->addresses, &own->table, &own->shifts,
                                        &own->records};
  constexpr Py_ssize_t count = sizeof into / sizeof *into;
  own->kept = Ref::to(kept);
  own->panels = Panels();
  if (PyTuple_GET_SIZE(numbers) != count + 3) return PyErr_BadArgument(), nullptr;
  for (Py_ssize_t k = 0; k < count; k++) {
    const size_t before = into[k]->size();
    if (!read(PyTuple_GET_ITEM(numbers, k), *into[k])) return nullptr;
    if (into[k]->size() != before) return PyErr_BadArgument(), nullptr;
  }
  double work = 0;
  for (size_t k = 0; k + fields <= own->records.size(); k += fields)
    work += static_cast<double>(own->records[k + 2]) /
            static_cast<double>(std::max<int64_t>(own->records[k + 3], 1));
  if (work > static_cast<double>(parts)) Py_RETURN_NONE;
  Given offsets(PyTuple_GET_ITEM(numbers, count)), which(PyTuple_GET_ITEM(numbers, count + 1));
  Given extents(PyTuple_GET_ITEM(numbers, count + 2));
  if (!offsets || !which || !extents) return nullptr;
  if (which.size != own->offsets.size()) return PyErr_BadArgument(), nullptr;
  for (size_t k = 0; k < which.size; k++) {
    const auto range = static_cast<size_t>(which[k]);
    if (range >= offsets.size) return PyErr_BadArgument(), nullptr;
    own->offsets[k] = offsets[range];
  }
  own->arena = arena;
  own->scratch = scratch;
  size_t next = 0;
  for (Result& x : own->results)
    for (npy_intp& n : x.shape) {
      if (next >= extents.size) return PyErr_BadArgument(), nullptr;
      n = extents[next++];
    }
  if (next != extents.size) return PyErr_BadArgument(), nullptr;
  if (!are_brief(own->results, result)) Py_RETURN_NONE;
  PyObject* made = program_type->tp_alloc(program_type, 0);
  if (made) reinterpret_cast<ProgramObject*>(made)->program = own.release();
  return made;
}

// An array of a type over memory, which `base` holds; its own memory without one.
PyObject* array_over(PyObject* dtype, const std::vector<npy_intp>& shape, void* data,
                     PyObject* base) {
  Py_INCREF(dtype);
  Ref made(PyArray_NewFromDescr(&PyArray_Type, reinterpret_cast<PyArray_Descr*>(dtype),
                                static_cast<int>(shape.size()), shape.data(), nullptr,
                                data, base ? NPY_ARRAY_CARRAY : 0, nullptr));
  if (made && base &&
      PyArray_SetBaseObject(array_of(made.get()), Py_NewRef(base)) < 0)
    return nullptr;
  return made.release();
}

// -- plans ------------------------------------------------------------------------------

// Where an argument comes from: a place of the graph, what was made, a Variable, or an
// array.
struct Source {
  enum Kind { place, made, variable, array } kind;
  size_t number = 0;
  Ref object;
};

// An argument that may be written over: how often the graph reads the version of it.
struct Over {
  size_t argument;
  Py_ssize_t uses;
};

// A Variable that a plan assigns: the place of the version before, if that is in the
// graph, and what was made.
struct Change {
  Ref variable;
  int64_t base;
  size_t slot;
};

struct Part {
  Ref program;
  std::vector<Source> sources;
  std::vector<std::pair<int64_t, size_t>> results;  // numbers, and where they go
  std::vector<Over> over;
};

// A node that gets what was made, and what it is cut to, or whether its value depends on
// what is trained.
struct Settled {
  int64_t slot;
  size_t place;
  Ref leaf;
  bool carried;
};

struct Plan {
  std::vector<Part> parts;
  std::vector<Change> changes;
  std::vector<Settled> cuts, values;  // a leaf of values: nothing is noted of them
  size_t slots = 0, nodes = 0;
  Ref key, leaves;  // how values are noted to be made
  std::vector<std::pair<size_t, Ref>> numbers;
};

struct PlanObject {
  PyObject_HEAD
  Plan* plan;
};
PyTypeObject* plan_type;

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Plan* plan = reinterpret_cast<PlanObject*>(self)->plan;
  if (!plan) return 0;
  for (Part& part : plan->parts)
    for (Source& x : part.sources) Py_VISIT(x.object.get());
  for (Change& x : plan->changes) Py_VISIT(x.variable.get());
  for (auto* nodes : {&plan->cuts, &plan->values})
    for (Settled& x : *nodes) Py_VISIT(x.leaf.get());
  Py_VISIT(plan->key.get());
  Py_VISIT(plan->leaves.get());
  return 0;
}

int clear(PyObject* self) {
  delete std::exchange(reinterpret_cast<PlanObject*>(self)->plan, nullptr);
  return 0;
}

void free_plan(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

bool read_part(PyObject* x, Plan& plan) {
  PyObject *program, *sources, *results, *over;
  if (!PyArg_ParseTuple(x, "O!O!O!O!", program_type, &program, &PyList_Type, &sources, &PyList_Type, &results,
                        &PyList_Type, &over))
    return false;
  Part part;
  part.program = Ref::to(program);
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(sources); k++) {
    int kind;
    PyObject* object;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(sources, k), "iO", &kind, &object))
      return false;
    Source made{static_cast<Source::Kind>(kind), 0, Ref()};
    if (kind <= Source::made)
      made.number = PyLong_AsSize_t(object);
    else
      made.object = Ref::to(object);
    if (kind < 0 || kind > Source::array || (kind == Source::array && !is_array(object)))
      return PyErr_BadArgument(), false;
    part.sources.push_back(std::move(made));
  }
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(results); k++) {
    long long number;
    Py_ssize_t slot;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(results, k), "Ln", &number, &slot)) return false;
    part.results.push_back({number, static_cast<size_t>(slot)});
  }
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(over); k++) {
    Py_ssize_t argument, uses;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(over, k), "nn", &argument, &uses)) return false;
    part.over.push_back({static_cast<size_t>(argument), uses});
  }
  plan.parts.push_back(std::move(part));
  return true;
}

bool read_settled(PyObject* list, std::vector<Settled>& into) {
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); k++) {
    Py_ssize_t slot, place;
    PyObject* leaf;
    int carried;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(list, k), "nnOp", &slot, &place, &leaf, &carried))
      return false;
    into.push_back({slot, static_cast<size_t>(place), Ref::to(leaf), carried != 0});
  }
  return true;
}

PyObject* plan(PyObject*, PyObject* args) {
  PyObject *parts, *changes, *cuts, *values, *key, *numbers, *leaves;
  Py_ssize_t slots, nodes;
  if (!PyArg_ParseTuple(args, "O!O!O!O!nnOO!O", &PyList_Type, &parts, &PyList_Type,
                        &changes, &PyList_Type, &cuts, &PyList_Type, &values, &slots,
                        &nodes, &key, &PyList_Type, &numbers, &leaves))
    return nullptr;
  auto own = std::make_unique<Plan>();
  own->slots = static_cast<size_t>(slots);
  own->nodes = static_cast<size_t>(nodes);
  own->key = Ref::to(key);
  own->leaves = Ref::to(leaves);
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(parts); k++)
    if (!read_part(PyList_GET_ITEM(parts, k), *own)) return nullptr;
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(changes); k++) {
    PyObject* variable;
    Py_ssize_t base, slot;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(changes, k), "Onn", &variable, &base, &slot))
      return nullptr;
    own->changes.push_back({Ref::to(variable), base, static_cast<size_t>(slot)});
  }
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(numbers); k++) {
    Py_ssize_t place;
    PyObject* number;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(numbers, k), "nO", &place, &number))
      return nullptr;
    own->numbers.push_back({static_cast<size_t>(place), Ref::to(number)});
  }
  if (!read_settled(cuts, own->cuts) || !read_settled(values, own->values)) return nullptr;
  PyObject* made = plan_type->tp_alloc(plan_type, 0);
  if (made) reinterpret_cast<PlanObject*>(made)->plan = own.release();
  return made;
}

// A plan that differs from another one in its programs alone, and notes nothing of how its
// values are made.
PyObject* plan_like(PyObject*, PyObject* args) {
  PyObject *like, *programs;
  if (!PyArg_ParseTuple(args, "O!O!", plan_type, &like, &PyList_Type, &programs))
    return nullptr;
  Plan* from = reinterpret_cast<PlanObject*>(like)->plan;
  if (!from || PyList_GET_SIZE(programs) != static_cast<Py_ssize_t>(from->parts.size()))
    return PyErr_BadArgument(), nullptr;
  auto own = std::make_unique<Plan>(*from);
  for (size_t k = 0; k < own->parts.size(); k++) {
    PyObject* program = PyList_GET_ITEM(programs, static_cast<Py_ssize_t>(k));
    if (Py_TYPE(program) != program_type) return PyErr_BadArgument(), nullptr;
    own->parts[k].program = Ref::to(program);
  }
  own->key = Ref::to(Py_None);
  own->leaves = Ref::to(Py_None);
  own->numbers.clear();
  PyObject* made = plan_type->tp_alloc(plan_type, 0);
  if (made) reinterpret_cast<PlanObject*>(made)->plan = own.release();
  return made;
}

// -- a run ------------------------------------------------------------------------------

struct Variables {
  PyTypeObject* kind = nullptr;
  Slot committed, version;
};
Variables variables;

PyObject* bind_run(PyObject*, PyObject* kind) {
  Variables found;
  if (!PyType_Check(kind) || !found.committed.find(kind, "committed") ||
      !found.version.find(kind, "version"))
    return nullptr;
  found.kind = reinterpret_cast<PyTypeObject*>(Py_NewRef(kind));
  variables = found;
  Py_RETURN_NONE;
}

class Running {
 public:
  Running(const Plan& plan, PyObject* nodes, const std::vector<int64_t>& others)
      : plan_(plan), nodes_(nodes), others_(others) {
    made_.resize(plan.slots);
    versions_.reserve(plan.changes.size());
    marks_.reserve(plan.values.size());
    before_.reserve(2 * plan.changes.size() + 4 * plan.cuts.size() + 2 * plan.values.size());
  }

  // Whether all is there to be read, and nothing was assigned meanwhile.
  bool is_plain() const {
    for (const Change& x : plan_.changes) {
      PyObject* now = variables.committed.of(x.variable.get());
      if (!now || !is_whole(nodes.stored.of(now))) return false;
      if (x.base >= 0 && now != node(static_cast<size_t>(x.base))) return false;
    }
    for (const Part& part : plan_.parts)
      for (size_t k = 0; k < part.sources.size(); k++)
        if (part.sources[k].kind != Source::made && !is_there(part, k)) return false;
    for (const Part& part : plan_.parts)
      if (!has_panels(part)) return false;
    return true;
  }

  // Allots what a program makes, and tells it where all lies; arguments that may be
  // written over are, where the run `changes` something and nobody else looks at them.
  // No Python runs from here to the end of the run.
  bool arrange(const Part& part, Program& own, bool changes) {
    const int64_t memory = memory_of(static_cast<size_t>(own.arena + own.scratch));
    if (!memory) return PyErr_NoMemory(), false;
    if (own.arguments.size() != part.sources.size()) return PyErr_BadArgument(), false;
    arguments_.clear(), results_.clear(), idle_.clear();
    arguments_.reserve(part.sources.size()), results_.reserve(own.results.size());
    free_.assign(part.sources.size(), false);
    for (size_t k = 0; k < part.sources.size(); k++) {
      arguments_.push_back(read(part.sources[k]));
      own.addresses[static_cast<size_t>(own.arguments[k])] = address(arguments_[k]);
    }
    if (changes)
      for (const Over& x : part.over) free_[x.argument] = is_free(part, x);
    for (const Result& x : own.results) {
      Ref made(result(x, own));
      if (!made) return false;
      if (!x.offset) own.addresses[static_cast<size_t>(x.buffer)] = address(made.get());
      PyArray_CLEARFLAGS(array_of(made.get()), NPY_ARRAY_WRITEABLE);
      results_.push_back(std::move(made));
    }
    for (auto& [number, slot] : part.results)
      for (size_t k = 0; k < results_.size(); k++)
        if (own.results[k].number == number) made_[slot] = Ref::to(results_[k].get());
    for (size_t k = 0; k < own.placed.size(); k++)
      own.addresses[static_cast<size_t>(own.placed[k])] = memory + own.offsets[k];
    for (size_t k = 0; k < own.panels.buffers.size(); k++)
      own.addresses[static_cast<size_t>(own.panels.buffers[k])] = own.panels.addresses[k];
    for (int64_t k : own.panels.ready) idle_.push_back(k);
    own.addresses[own.addresses.size() - 2] = memory + own.arena;
    own.addresses.back() = reinterpret_cast<intptr_t>(&own.status);
    if (own.own >= 0)
      own.addresses[static_cast<size_t>(own.own)] =
          reinterpret_cast<intptr_t>(own.table.data() + own.index);
    for (const Zeros& x : own.zeros)
      std::memset(reinterpret_cast<char*>(static_cast<intptr_t>(
                      own.addresses[static_cast<size_t>(x.buffer)])) + x.first,
                  0, static_cast<size_t>(x.size));
    for (size_t k = 0; k < own.slots.size(); k++)
      own.table[static_cast<size_t>(own.slots[k])] =
          own.addresses[static_cast<size_t>(own.which[k])] + own.shifts[k];
    return true;
  }

  // Runs what was arranged; false where it found something wrong.
  bool execute(Program& own, Pool& pool) const {
    std::vector<int64_t> totals;  // of copies from a buffer to itself
    for (int64_t k : idle_)
      totals.push_back(std::exchange(own.records[static_cast<size_t>(k) * fields + 2], 0));
    own.status = 0;
    pool.run({reinterpret_cast<const Record*>(own.records.data()),
              static_cast<int64_t>(own.records.size() / fields), own.table.data(), &own.status,
              nullptr});
    for (size_t k = 0; k < idle_.size(); k++)
      own.records[static_cast<size_t>(idle_[k]) * fields + 2] = totals[k];
    return !own.status;
  }

  // New versions, yet without values, and how values were made: Python may run here.
  bool prepare() {
    for (const Change& x : plan_.changes) {
      PyObject* variable = x.variable.get();
      PyObject* like = variables.committed.of(variable);
      Ref none(PyTuple_New(0));
      if (!none) return false;
      PyObject* made = make({nodes.kind, variables.version.of(variable), none.get(),
                             nodes.type.of(like), Py_None, 0,
                             nodes.code.of(like), nodes.offset.of(like), Py_None, false});
      if (!made) return false;
      versions_.push_back(Ref(made));
    }
    for (const Settled& x : plan_.cuts)
      if (x.slot < 0 && !unmark(x.place)) return false;
    if (plan_.values.empty()) return true;
    Ref told;
    if (plan_.key.get() != Py_None) {
      Ref places(PyDict_New());
      if (!places) return false;
      for (auto& [place, number] : plan_.numbers)
        if (PyDict_SetItem(places.get(), nodes.serial.of(node(place)), number.get()) < 0)
          return false;
      told = Ref(PyTuple_Pack(3, plan_.key.get(), places.get(), plan_.leaves.get()));
      if (!told) return false;
    }
    static PyObject* const carried = PyUnicode_InternFromString("carried");
    static PyObject* const program = PyUnicode_InternFromString("program");
    for (const Settled& x : plan_.values) {
      marks_.push_back(Ref(PyDict_New()));
      PyObject* mark = marks_.back().get();
      if (!mark || PyDict_SetItem(mark, carried, x.carried ? Py_True : Py_False) < 0 ||
          (told && x.leaf.get() == Py_None &&
           PyDict_SetItem(mark, program, told.get()) < 0))
        return false;
    }
    return true;
  }

  // Puts down the mark of a node that is cut without what tells how it was made.
  bool unmark(size_t place) {
    PyObject* mark = nodes.mark.of(node(place));
    if (!PyDict_Check(mark)) return true;
    unmarked_.emplace_back(place, Ref(without_recipe(mark)));
    return static_cast<bool>(unmarked_.back().second);
  }

  // Gives nodes and Variables what was `made`, by slot; a value that another thread gave
  // meanwhile stays, as there may be somebody who has read it.
  void publish(std::vector<Ref>& made) {
    Ref none(PyTuple_New(0));
    for (size_t k = 0; k < plan_.changes.size(); k++) {
      put(nodes.stored, versions_[k].get(), made_[plan_.changes[k].slot]);
      put(variables.committed, plan_.changes[k].variable.get(), versions_[k]);
    }
    for (const Settled& x : plan_.cuts) {
      PyObject* own = node(x.place);
      if (x.slot >= 0 && waits(own))
        put(nodes.stored, own, made_[static_cast<size_t>(x.slot)]);
      Ref leaf = Ref::to(x.leaf.get()), inputs = Ref::to(none.get());
      put(nodes.op, own, leaf);
      put(nodes.inputs, own, inputs);
    }
    for (auto& [place, mark] : unmarked_) put(nodes.mark, node(place), mark);
    for (size_t k = 0; k < plan_.values.size(); k++) {
      const Settled& x = plan_.values[k];
      if (!made_[static_cast<size_t>(x.slot)]) continue;  // nothing is there to be kept
      PyObject* own = node(x.place);
      if (waits(own)) put(nodes.stored, own, made_[static_cast<size_t>(x.slot)]);
      put(nodes.mark, own, marks_[k]);
    }
    made.swap(made_);
  }

 private:
  PyObject* node(size_t place) const {
    return PyList_GET_ITEM(nodes_, static_cast<Py_ssize_t>(place));
  }

  PyObject* read(const Source& x) const {
    return x.kind == Source::made ? made_[x.number].get() : array_behind(value(x));
  }

  // The value of a source that no part makes.
  PyObject* value(const Source& x) const {
    if (x.kind == Source::variable)
      return nodes.stored.of(variables.committed.of(x.object.get()));
    if (x.kind != Source::place) return x.object.get();
    PyObject* given = node(x.number);  // or an array in the place of one
    return is_array(given) ? given : nodes.stored.of(given);
  }

  // Whether an argument of a part is there to be read, as it will be, if a result lies
  // in it.
  bool is_there(const Part& part, size_t k) const {
    PyObject* now = value(part.sources[k]);
    if (!now || !has_arrived(now) || !is_straight(array_behind(now))) return false;
    if (is_array(now)) return true;
    const Program& own = *reinterpret_cast<ProgramObject*>(part.program.get())->program;
    for (const Result& x : own.results)
      if (k < own.arguments.size() && own.arguments[k] == x.buffer) return false;
    return true;
  }

  // Whether a program awaits no panels, or has those of its arguments. One whose weights
  // are others each time gives them up.
  bool has_panels(const Part& part) const {
    Panels& own = reinterpret_cast<ProgramObject*>(part.program.get())->program->panels;
    if (!own.awaited) return true;
    if (are_of(own, part)) return own.misses = 0, true;
    if (++own.misses < patience) return false;
    Panels none;
    none.misses = own.misses;
    std::swap(own, none);
    return true;
  }

  bool are_of(const Panels& own, const Part& part) const {
    if (own.turn != last_turn) return false;
    for (size_t k = 0; k < own.arguments.size(); k++) {
      const Source& source = part.sources[static_cast<size_t>(own.arguments[k])];
      if (source.kind == Source::made || !own.same(k, read(source))) return false;
    }
    return true;
  }

  // Whether a value is an array that no run is writing.
  static bool is_whole(PyObject* value) {
    return value && has_arrived(value) && is_array(array_behind(value));
  }

  static bool is_straight(PyObject* x) {
    return x && is_array(x) && PyArray_IS_C_CONTIGUOUS(array_of(x));
  }

  // Whether what is left of the graph reads a node: somebody holds what is computed of it.
  bool is_read_later(size_t place) const {
    return place < others_.size() && others_[place] > 1;
  }

  // Whether nothing but a Variable, the graph, and the list of its nodes refers to a
  // version, nobody else to its array, or to what that is part of.
  bool is_free(const Part& part, const Over& x) const {
    const Source& source = part.sources[x.argument];
    if (source.kind != Source::place && source.kind != Source::variable) return false;
    const bool listed = source.kind == Source::place;
    if (listed && is_read_later(source.number)) return false;
    PyObject* version =
        listed ? node(source.number) : variables.committed.of(source.object.get());
    PyObject* stored = nodes.stored.of(version);
    PyObject* array = array_behind(stored);
    return Py_REFCNT(version) == 1 + listed + x.uses && is_alone(array) &&
           (stored == array || Py_REFCNT(stored) == 1);
  }

  // An array for a result: of its own, over that of an argument, or what is there.
  PyObject* result(const Result& x, const Program& own) {
    PyObject* under = x.constant.get();
    for (size_t k = 0; !under && k < results_.size(); k++)
      if (own.results[k].buffer == x.buffer) under = results_[k].get();
    for (size_t k = 0; !under && k < arguments_.size(); k++) {
      const bool same = own.arguments[k] == x.buffer;
      if (!same && !(own.arguments[k] == x.argument && free_[k])) continue;
      if (!same && x.copy >= 0) idle_.push_back(x.copy);
      under = arguments_[k];  // a new object: it is another version
    }
    char* data = under ? PyArray_BYTES(array_of(under)) + x.offset : nullptr;
    return array_over(x.dtype.get(), x.shape, data, under);
  }

  // What was there before goes when all is done: there may be Python in its end.
  void put(const Slot& slot, PyObject* x, Ref& value) {
    PyObject*& place = slot.of(x);
    before_.push_back(Ref(place));
    place = Py_NewRef(value.get());
  }

  const Plan& plan_;
  PyObject* nodes_;
  const std::vector<int64_t>& others_;
  std::vector<Ref> made_, versions_, marks_, before_;
  std::vector<std::pair<size_t, Ref>> unmarked_;  // places, and marks of what is cut
  // Of the program that runs: borrowed arguments, which of them are free to be written.
  std::vector<PyObject*> arguments_;
  std::vector<bool> free_;
  std::vector<Ref> results_;
  std::vector<int64_t> idle_;  // records that have nothing to do
};

enum class Outcome { ran, otherwise, wrong, raised };  // not all was plain; a run failed

// Runs a plan for some nodes, and gives them what was made; updates of a frame, if there
// are any, are carried out.
Outcome carry_out(const Plan& plan, PyObject* nodes, const std::vector<int64_t>& others,
                  Pool& pool, PyObject* frame, PyObject* updates,
                  std::vector<Ref>& made) {
  Running running(plan, nodes, others);
  if (!running.prepare()) return Outcome::raised;
  if (!running.is_plain() || (updates && !can_carry_out(updates))) return Outcome::otherwise;
  for (size_t k = 0; k < plan.parts.size(); k++) {
    const Part& part = plan.parts[k];
    Program& own = *reinterpret_cast<ProgramObject*>(part.program.get())->program;
    if (!running.arrange(part, own, k + 1 == plan.parts.size())) return Outcome::raised;
    if (!running.execute(own, pool)) return Outcome::wrong;
  }
  running.publish(made);
  if (updates && !note_carried_out(frame, updates)) return Outcome::raised;
  return Outcome::ran;
}

// Puts what was made into a list that is there for it.
PyObject* fill(Ref& list, const std::vector<Ref>& made) {
  for (size_t k = 0; k < made.size(); k++)
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(k),
                    Py_NewRef(made[k] ? made[k].get() : Py_None));
  return list.release();
}

bool fits(const Plan* plan, PyObject* nodes) {
  if (plan && static_cast<size_t>(PyList_GET_SIZE(nodes)) == plan->nodes) return true;
  return PyErr_BadArgument(), false;
}

PyObject* run(PyObject*, PyObject* const* args, Py_ssize_t given) {
  if ((given != 4 && given != 6) || Py_TYPE(args[0]) != plan_type || !PyList_Check(args[1]))
    return PyErr_BadArgument(), nullptr;
  PyObject *frame = given > 4 ? args[4] : nullptr, *updates = given > 4 ? args[5] : nullptr;
  if (updates && (!PyList_Check(updates) || !are_nodes(updates)))
    return PyErr_BadArgument(), nullptr;
  Pool* pool = pool_of(args[3]);
  Ref whole = Ref::to(args[0]);  // the table that has it may be emptied meanwhile
  const Plan* plan = reinterpret_cast<PlanObject*>(args[0])->plan;
  if (!pool || !fits(plan, args[1])) return nullptr;
  std::vector<int64_t> others;
  for (Py_ssize_t k = 0; PyList_Check(args[2]) && k < PyList_GET_SIZE(args[2]); k++)
    others.push_back(number(PyList_GET_ITEM(args[2], k)));
  std::vector<Ref> made;
  Ref found(PyList_New(static_cast<Py_ssize_t>(plan->slots)));
  if (!found) return nullptr;
  switch (carry_out(*plan, args[1], others, *pool, frame, updates, made)) {
    case Outcome::raised: return nullptr;
    case Outcome::otherwise: Py_RETURN_NONE;
    case Outcome::wrong: return PyTuple_New(0);
    default: break;
  }
  return fill(found, made);
}

// -- a request ---------------------------------------------------------------------------

// Whether all that a plan's programs were made for is still so: 1, 0, or -1 where Python
// has raised something.
int holds(PyObject* checks) {
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(checks); k++) {
    Ref told(PyObject_CallNoArgs(PyTuple_GET_ITEM(checks, k)));
    if (!told) return -1;
    if (told.get() != Py_True) return 0;
  }
  return 1;
}

// The nodes at some places.
PyObject* nodes_at(PyObject* nodes, PyObject* places) {
  Ref found(PyList_New(0));
  for (Py_ssize_t k = 0; found && k < PyTuple_GET_SIZE(places); k++) {
    PyObject* x = PyList_GetItem(nodes, PyLong_AsSsize_t(PyTuple_GET_ITEM(places, k)));
    if (!x || PyList_Append(found.get(), x) < 0) return nullptr;
  }
  return found.release();
}

// What a plan says to the core of itself (runtime/steps.py): itself as it is run, the
// checks, the places of what is derived, and its last program.
struct Quick {
  Ref whole, checks, open, last;
  int puts_out = 0;  // whether Python has use for what is made
};

// Finds what a plan says of itself; 1 if the core may follow it.
int read_quick(PyObject* plan, Quick& quick) {
  static PyObject* const name = PyUnicode_InternFromString("quick");
  if (!plan || PyBool_Check(plan)) return 0;
  Ref told(PyObject_GetAttr(plan, name));
  if (!told) return -1;
  if (told.get() == Py_None) return 0;
  PyObject *whole, *checks, *open, *last;
  if (!PyArg_ParseTuple(told.get(), "O!O!O!Op", plan_type, &whole, &PyTuple_Type, &checks,
                        &PyTuple_Type, &open, &last, &quick.puts_out))
    return -1;
  quick.whole = Ref::to(whole), quick.checks = Ref::to(checks), quick.open = Ref::to(open);
  quick.last = Ref::to(last);
  return 1;
}

// A run that fails may have been carried out: a frame drops the updates.
void drop(PyObject* frame, PyObject* updates) {
  PyObject *kind, *value, *trace;
  PyErr_Fetch(&kind, &value, &trace);
  Ref done(PyObject_CallMethod(frame, "drop", "O", updates));
  if (!done) PyErr_Clear();
  PyErr_Restore(kind, value, trace);
}

// Derivatives that live (autodiff/live.py), who holds arrays in their places
// (runtime/moved.py) and lets go of them, what is noted of values for gradients to come
// (runtime/history.py), and what programs keep for these (translation/residuals.py).
struct Following {
  PyObject *live = nullptr, *holding = nullptr, *let_go = nullptr, *note = nullptr;
  PyTypeObject *made_by = nullptr, *wish = nullptr;
  Slot wished, idle, nbytes;
};
Following following;

PyObject* bind_history(PyObject*, PyObject* args) {
  PyObject *note, *type;
  if (!PyArg_ParseTuple(args, "OO", &note, &type) || !following.nbytes.find(type, "nbytes"))
    return nullptr;
  following.note = Py_NewRef(note);
  Py_RETURN_NONE;
}

PyObject* bind_residuals(PyObject*, PyObject* args) {
  PyObject *made_by, *wish;
  if (!PyArg_ParseTuple(args, "O!O!", &PyType_Type, &made_by, &PyType_Type, &wish) ||
      !following.wished.find(made_by, "wish") || !following.idle.find(wish, "idle"))
    return nullptr;
  following.made_by = reinterpret_cast<PyTypeObject*>(Py_NewRef(made_by));
  following.wish = reinterpret_cast<PyTypeObject*>(Py_NewRef(wish));
  Py_RETURN_NONE;
}

constexpr long long renewed_within = 256;  // runs: IDLE of residuals.py

// Whether the program that made a value is known to keep what its gradients read: that
// another one follows is noted then, as `Residuals.renew` does.
bool is_renewed(PyObject* node) {
  static PyObject *const program = PyUnicode_InternFromString("program"),
                  *const zero = PyLong_FromLong(0);
  PyObject* mark = nodes.mark.of(node);
  PyObject* note = PyDict_Check(mark) ? PyDict_GetItemWithError(mark, program) : nullptr;
  if (!note) return !PyErr_Occurred();
  PyObject* made_by = PyTuple_Check(note) ? PyTuple_GET_ITEM(note, 0) : note;
  if (Py_TYPE(made_by) != following.made_by) return false;
  PyObject* wish = following.wished.of(made_by);
  if (!wish || Py_TYPE(wish) != following.wish || number(following.idle.of(wish)) > renewed_within)
    return PyErr_Clear(), false;
  following.idle.put(wish, zero);
  return true;
}

// The nodes that have values after a run and keep their recipes; what is kept for a
// gradient to come beside them is noted. Null where Python has raised something.
PyObject* settled(const Plan& plan, PyObject* nodes_) {
  Ref found(PyList_New(0)), more(PyList_New(0));
  if (!found || !more) return nullptr;
  long long bytes = 0;
  for (const Settled& x : plan.values) {
    PyObject* node = PyList_GET_ITEM(nodes_, static_cast<Py_ssize_t>(x.place));
    if (x.leaf.get() == Py_None) {
      if (PyList_Append(found.get(), node) < 0) return nullptr;
    } else if (!waits(node)) {  // of one array, and so of one type
      Ref gone(PyWeakref_NewRef(node, nullptr));
      if (!gone || PyList_Append(more.get(), gone.get()) < 0) return nullptr;
      bytes += number(following.nbytes.of(nodes.type.of(node)));
    }
  }
  if (!PyList_GET_SIZE(more.get())) return found.release();
  Ref size(PyLong_FromLongLong(bytes));
  Ref done(size ? PyObject_CallFunctionObjArgs(following.note, more.get(), size.get(), nullptr)
                : nullptr);
  return done ? found.release() : nullptr;
}

PyObject* bind_live(PyObject*, PyObject* live) {
  if (!PyDict_Check(live)) return PyErr_BadArgument(), nullptr;
  following.live = Py_NewRef(live);
  Py_RETURN_NONE;
}

PyObject* bind_holding(PyObject*, PyObject* args) {
  PyObject *holding, *let_go;
  if (!PyArg_ParseTuple(args, "O!O", &PyDict_Type, &holding, &let_go)) return nullptr;
  following.holding = Py_NewRef(holding), following.let_go = Py_NewRef(let_go);
  Py_RETURN_NONE;
}

// Tells Python what is about to be derived, and which Variables are about to change, as
// far as it wants to know.
bool tell(const Quick& quick, PyObject* plan, PyObject* nodes, PyObject* engine) {
  static PyObject *const changed = PyUnicode_InternFromString("changed"),
                  *const derived = PyUnicode_InternFromString("derived");
  if (PyDict_GET_SIZE(following.holding)) {
    Ref ids(PyObject_GetAttr(plan, changed));
    Ref done(ids ? PyObject_CallOneArg(following.let_go, ids.get()) : nullptr);
    if (!done) return false;
  }
  bool renewed = true;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(quick.open.get()); k++) {
    PyObject* at = PyTuple_GET_ITEM(quick.open.get(), k);
    PyObject* x = PyList_GetItem(nodes, PyLong_AsSsize_t(at));
    if (!x) return false;
    renewed &= is_renewed(x);
  }
  if (renewed) return true;
  Ref found(nodes_at(nodes, quick.open.get()));
  Ref done(found ? PyObject_CallMethodOneArg(engine, derived, found.get()) : nullptr);
  return static_cast<bool>(done);
}

// A graph that was looked at, its key with the rest of that, and what a table has for it.
struct Sought {
  Looked seen;
  Ref key, entry;
};

// Looks at a graph and into a table: as `look_at`.
int seek(const Asking& asking, PyObject* table, PyObject* rest, Sought& into) {
  if (asking.asked && PyList_GET_SIZE(asking.roots) && are_nodes(asking.roots) &&
      made_since_run(PyList_GET_ITEM(asking.roots, 0)) > asking.most)
    return 0;  // more was made than is looked at
  const int found = PyErr_Occurred() ? -1 : look_at(asking, into.seen);
  if (found <= 0) return found;
  into.key = Ref(PyTuple_New(1 + PyTuple_GET_SIZE(rest)));
  PyObject* bytes = into.key ? into.seen.key_bytes() : nullptr;
  if (!bytes) return -1;
  PyTuple_SET_ITEM(into.key.get(), 0, bytes);
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(rest); k++)
    PyTuple_SET_ITEM(into.key.get(), k + 1, Py_NewRef(PyTuple_GET_ITEM(rest, k)));
  into.entry = Ref::to(PyDict_GetItemWithError(table, into.key.get()));
  return PyErr_Occurred() ? -1 : 1;
}

// Forgets a derivative that is gone, by its serial.
PyObject* forget_live(PyObject* serial, PyObject*) {
  if (PyDict_Contains(following.live, serial) > 0) PyDict_DelItem(following.live, serial);
  PyErr_Clear();
  Py_RETURN_NONE;
}
PyMethodDef forgetting = {"forget_live", forget_live, METH_O, nullptr};

// Knows of a derivative as long as it lives, as `mind` of autodiff/live.py.
bool mind(PyObject* derivative) {
  PyObject* serial = nodes.serial.of(derivative);
  Ref forget(PyCFunction_New(&forgetting, serial));
  Ref alive(forget ? PyWeakref_NewRef(derivative, forget.get()) : nullptr);
  return alive && PyDict_SetItem(following.live, serial, alive.get()) == 0;
}

// (roots): [] where cutting them loses no derivative that lives, else NotImplemented, as
// Python says which (autodiff/live.py).
PyObject* endangered(PyObject*, PyObject* roots) {
  if (!PyList_Check(roots)) return PyErr_BadArgument(), nullptr;
  const auto is_lost = [roots](PyObject* x) {
    if (!waits(x)) return false;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(roots); k++)
      if (PyList_GET_ITEM(roots, k) == x) return false;
    return true;
  };
  Py_ssize_t at = 0;
  PyObject *serial, *alive;
  bool lost = false;
  while (!lost && PyDict_Next(following.live, &at, &serial, &alive)) {
    PyObject* node = target_of(alive);
    if (!node || node == Py_None) continue;
    if (Py_TYPE(nodes.type.of(node)) != nodes.several) lost = is_lost(node);
    each_result(node, [&](PyObject* x) { lost |= is_lost(x); });
  }
  return lost ? Py_NewRef(Py_NotImplemented) : PyList_New(0);
}

// What derivatives of losses need: the numbers of what is assigned, the type and the value
// of a cotangent 1, its op, and the class of types.
struct Deriving {
  PyObject *assigned = nullptr, *one = nullptr, *literal = nullptr;
  PyTypeObject* type = nullptr;
  Slot dtype, shape;
};
Deriving deriving;

PyObject* bind_losses(PyObject*, PyObject* args) {
  Deriving found;
  if (!PyArg_ParseTuple(args, "OOOO!", &found.assigned, &found.one, &found.literal,
                        &PyType_Type, &found.type))
    return nullptr;
  auto* kind = reinterpret_cast<PyObject*>(found.type);
  if (!found.dtype.find(kind, "dtype") || !found.shape.find(kind, "shape")) return nullptr;
  for (PyObject* x : {found.assigned, found.one, found.literal, kind}) Py_INCREF(x);
  deriving = found;
  Py_RETURN_NONE;
}

// The cotangent 1 of a loss; None where that is no real number.
PyObject* seed_of(PyObject* loss) {
  PyObject* type = nodes.type.of(loss);
  if (Py_TYPE(type) != deriving.type || PyTuple_GET_SIZE(deriving.shape.of(type)))
    Py_RETURN_NONE;
  Ref one(PyObject_CallOneArg(deriving.one, deriving.dtype.of(type))), empty(PyTuple_New(0));
  if (!one || !empty || one.get() == Py_None) return one.release();
  return make_here(nodes.kind, deriving.literal, empty.get(), PyTuple_GET_ITEM(one.get(), 0),
                   PyTuple_GET_ITEM(one.get(), 1));
}

// The derivative of a loss, as it was recorded of another that looked alike: the
// Variables that it is by, each of which is read as one version, and its results. None
// where it is more, null where Python has raised something.
PyObject* derived(PyObject* known, PyObject* nodes_, PyObject* loss) {
  static PyObject *const name = PyUnicode_InternFromString("variable"),
                  *const late = PyUnicode_InternFromString("late");
  PyObject *op, *type, *places, *ops;
  if (!known || !PyTuple_Check(known) || !has_no_watchers()) Py_RETURN_NONE;
  if (!PyArg_ParseTuple(known, "OOO!OOO", &op, &type, &PyList_Type, &places, &ops, &ops, &ops))
    return nullptr;
  if (ops == Py_None) Py_RETURN_NONE;
  Ref is_late(PyObject_GetAttr(op, late)), seed(is_late ? seed_of(loss) : nullptr);
  if (!seed || seed.get() == Py_None || is_late.get() != Py_False) return seed.release();
  constexpr Py_ssize_t given = 2;
  const Py_ssize_t count = PyList_GET_SIZE(places);
  Ref inputs(PyTuple_New(given + count)), variables(PyList_New(count));
  if (!inputs || !variables) return nullptr;
  PyTuple_SET_ITEM(inputs.get(), 0, Py_NewRef(loss));
  PyTuple_SET_ITEM(inputs.get(), 1, Py_NewRef(seed.get()));
  for (Py_ssize_t k = 0; k < count; k++) {
    PyObject* x = PyList_GetItem(nodes_, PyLong_AsSsize_t(PyList_GET_ITEM(places, k)));
    PyObject* variable = x ? PyObject_GetAttr(nodes.op.of(x), name) : nullptr;
    if (!variable) return nullptr;
    PyList_SET_ITEM(variables.get(), k, variable);
    for (Py_ssize_t j = 0; j < k; j++)  // they are two versions of one
      if (PyList_GET_ITEM(variables.get(), j) == variable) Py_RETURN_NONE;
    PyTuple_SET_ITEM(inputs.get(), given + k, Py_NewRef(x));
  }
  Ref node(make_here(nodes.kind, op, inputs.get(), type, Py_None));
  Ref results(node ? make_results(nodes.kind, node.get(), ops) : nullptr);
  if (!results || !mind(node.get())) return nullptr;
  return PyTuple_Pack(2, variables.get(), results.get());
}

// (table, loss, most)
PyObject* seen_loss(PyObject*, PyObject* const* args, Py_ssize_t given) {
  static PyObject* const renew = PyUnicode_InternFromString("renew");
  if (given != 3 || !PyDict_Check(args[0]) || Py_TYPE(args[1]) != nodes.kind)
    return PyErr_BadArgument(), nullptr;
  Ref around(settings(nullptr, nullptr));
  PyObject* state = around ? own_state() : nullptr;
  if (!state) return nullptr;
  if (!PyTuple_Check(around.get()) || !has_no_watchers()) return Py_NewRef(Py_NotImplemented);
  Ref pending = Ref::to(states.pending.of(frame_of(state))), roots(PyList_New(1));
  if (!roots) return nullptr;
  PyList_SET_ITEM(roots.get(), 0, Py_NewRef(args[1]));
  Asking x;
  x.roots = roots.get(), x.asked = 1, x.updates = PyList_GET_SIZE(pending.get());
  x.most = PyLong_AsSsize_t(args[2]), x.whole = x.derived = true;
  Ref own(x.updates ? PyObject_CallOneArg(deriving.assigned, pending.get()) : PyDict_New());
  if (!own || PyErr_Occurred() || PyList_SetSlice(roots.get(), 1, 1, pending.get()) < 0)
    return nullptr;
  x.own = own.get();
  Sought found;
  const int looked = seek(x, args[0], around.get(), found);
  if (looked < 0) return nullptr;
  if (!looked) Py_RETURN_NONE;
  Ref as_before(derived(found.entry.get(), found.seen.nodes.get(), args[1]));
  if (!as_before) return nullptr;
  if (!PyTuple_Check(as_before.get())) {
    PyObject* entry = found.entry ? found.entry.get() : Py_None;
    return PyTuple_Pack(3, found.key.get(), entry, found.seen.nodes.get());
  }
  Ref done(PyObject_CallMethodOneArg(args[0], renew, found.key.get()));
  return done ? as_before.release() : nullptr;
}

// (table, rest, roots, asked, updates, own, most, ends, parts)
PyObject* sought(PyObject*, PyObject* args) {
  PyObject *table, *rest;
  Asking x;
  if (!PyArg_ParseTuple(args, "O!O!O!nnO!nLL", &PyDict_Type, &table, &PyTuple_Type, &rest,
                        &PyList_Type, &x.roots, &x.asked, &x.updates, &PyDict_Type, &x.own,
                        &x.most, &x.ends, &x.parts))
    return nullptr;
  x.whole = x.derived = true;
  Sought found;
  const int looked = seek(x, table, rest, found);
  if (looked < 0) return nullptr;
  if (!looked) Py_RETURN_NONE;
  PyObject* entry = found.entry ? found.entry.get() : Py_None;
  return PyTuple_Pack(3, found.key.get(), entry, found.seen.nodes.get());
}

// (table, rest, roots, asked, updates, own, whole, derived, most, cuts)
PyObject* follow(PyObject*, PyObject* const* args, Py_ssize_t given) {
  if (given != 10 || !PyDict_Check(args[0]) || !PyTuple_Check(args[1]) ||
      !PyList_Check(args[2]) || !PyList_Check(args[4]) || !PyDict_Check(args[5]))
    return PyErr_BadArgument(), nullptr;
  static PyObject* const followed = PyUnicode_InternFromString("followed");
  PyObject* updates = args[4];
  Asking x;
  x.roots = args[2], x.own = args[5];
  x.asked = PyLong_AsSsize_t(args[3]), x.most = PyLong_AsSsize_t(args[8]);
  x.whole = args[6] == Py_True, x.derived = args[7] == Py_True;
  x.updates = PyList_GET_SIZE(updates);
  if (PyErr_Occurred()) return nullptr;
  Around around;
  const int may = find_around(around);
  if (may < 0) return nullptr;
  const bool cuts = args[9] == Py_True && PyDict_GET_SIZE(following.live);
  if (!may || cuts || (x.updates && around.told)) return Py_NewRef(Py_NotImplemented);
  Pool* pool = pool_of(around.pool.get());
  if (!pool) return nullptr;
  PyObject* frame = around.frame.get();
  Sought sought;
  Looked& seen = sought.seen;
  const int found = seek(x, args[0], args[1], sought);
  if (found < 0) return nullptr;
  if (!found) Py_RETURN_NONE;
  Ref &key = sought.key, &plan = sought.entry;
  Ref waiting(PyList_GetSlice(updates, 0, x.updates));
  Ref told(PyTuple_New(6));
  Quick quick;
  const int known = waiting && told ? read_quick(plan.get(), quick) : -1;
  if (known < 0) return nullptr;
  Outcome outcome = Outcome::otherwise;
  Ref list;  // what was made, if Python is to have it
  std::vector<Ref> made;
  if (known) {
    const int still = holds(quick.checks.get());
    if (still < 0) return nullptr;
    if (still && !tell(quick, plan.get(), seen.nodes.get(), around.engine.get())) return nullptr;
    const Plan* own = reinterpret_cast<PlanObject*>(quick.whole.get())->plan;
    if (!fits(own, seen.nodes.get())) return nullptr;
    list = Ref(quick.puts_out ? PyList_New(static_cast<Py_ssize_t>(own->slots))
                              : Py_NewRef(Py_None));
    if (!list) return nullptr;
    PyObject* carried = x.updates ? waiting.get() : nullptr;
    outcome = Outcome::wrong;
    if (still) outcome = carry_out(*own, seen.nodes.get(), seen.others, *pool, frame, carried, made);
    if (outcome == Outcome::raised) {
      if (carried) drop(frame, carried);
      return nullptr;
    }
  }
  const bool ran = outcome == Outcome::ran;
  if (ran) {
    mark_run();
    Ref done(PyObject_CallMethodOneArg(around.engine.get(), followed, quick.last.get()));
    const Plan* own = reinterpret_cast<PlanObject*>(quick.whole.get())->plan;
    Ref left(done && own ? settled(*own, seen.nodes.get()) : nullptr);
    Ref more(Py_NewRef(Py_None));
    if (quick.puts_out) {
      Ref every(fill(list, made));
      more = Ref(PyTuple_Pack(2, seen.nodes.get(), every.get()));
    }
    return left && more ? PyTuple_Pack(4, plan.get(), key.get(), left.get(), more.get()) : nullptr;
  }
  Ref others(list_of(seen.others)), held(list_of(seen.held));
  if (!others || !held) return nullptr;
  PyObject* first = outcome == Outcome::wrong ? Py_False : Py_None;
  PyObject* const every[] = {Py_NewRef(first),    key.release(),  seen.nodes.release(),
                             others.release(), held.release(), waiting.release()};
  for (Py_ssize_t k = 0; k < 6; k++) PyTuple_SET_ITEM(told.get(), k, every[k]);
  return told.release();
}

// -- functions of C ---------------------------------------------------------------------

// A program of one vector that makes a number and its gradient, for callers without
// Python: any threads at once, each with memory of its own.
class Function {
 public:
  // The program, where its arguments lie (0: the vector), and its two results.
  Function(const Program& program, std::vector<int64_t> arguments, const Result* value,
           const Result* gradient)
      : program_(program), arguments_(std::move(arguments)), value_(value), gradient_(gradient) {}

  int64_t call(uint64_t count, const double* x, double* gradient, double* value) {
    if (count != static_cast<uint64_t>(gradient_->shape[0])) return -1;
    std::unique_ptr<Instance> own = take();
    if (!own) return -2;
    const bool well = run(*own, x, gradient, value);
    give_back(std::move(own));
    if (!well) return 1;
    for (uint64_t k = 0; k < count; k++)
      if (!std::isfinite(gradient[k])) return 3;
    return std::isfinite(*value) ? 0 : 4;
  }

 private:
  // What a run fills in, and its memory.
  struct Instance {
    std::vector<int64_t> addresses, table;
    std::unique_ptr<char[]> memory;
    int64_t status = 0;
  };

  std::unique_ptr<Instance> take() {
    {
      std::lock_guard<std::mutex> held(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<Instance> own = std::move(free_.back());
        free_.pop_back();
        return own;
      }
    }
    auto own = std::make_unique<Instance>();
    own->addresses = program_.addresses;
    own->table = program_.table;
    const auto size = static_cast<size_t>(program_.arena + program_.scratch) + alignment;
    own->memory.reset(new (std::nothrow) char[size]);
    if (!own->memory) return nullptr;
    const auto first = reinterpret_cast<uintptr_t>(own->memory.get());
    const auto memory = static_cast<int64_t>((first + alignment - 1) & ~(alignment - 1));
    for (size_t k = 0; k < program_.placed.size(); k++)
      own->addresses[static_cast<size_t>(program_.placed[k])] = memory + program_.offsets[k];
    own->addresses[own->addresses.size() - 2] = memory + program_.arena;
    own->addresses.back() = reinterpret_cast<intptr_t>(&own->status);
    return own;
  }

  void give_back(std::unique_ptr<Instance> own) {
    std::lock_guard<std::mutex> held(mutex_);
    free_.push_back(std::move(own));
  }

  // Where a result lies: with the caller, or where it is without a run.
  static void place(const Result& x, const Program& program, Instance& own, double* given) {
    int64_t& place = own.addresses[static_cast<size_t>(x.buffer)];
    bool there = static_cast<bool>(x.constant);
    for (int64_t n : program.arguments) there |= n == x.buffer;
    if (x.constant) place = address(x.constant.get());
    if (!there) place = reinterpret_cast<intptr_t>(given);
  }

  static void copy_out(const Result& x, const Instance& own, double* given) {
    const auto* from = reinterpret_cast<const double*>(
        static_cast<intptr_t>(own.addresses[static_cast<size_t>(x.buffer)]));
    const size_t count = x.shape.empty() ? 1 : static_cast<size_t>(x.shape[0]);
    if (from != given) std::memcpy(given, from, count * sizeof(double));
  }

  bool run(Instance& own, const double* x, double* gradient, double* value) const {
    static Pool alone;  // without workers
    for (size_t k = 0; k < arguments_.size(); k++)
      own.addresses[static_cast<size_t>(program_.arguments[k])] =
          arguments_[k] ? arguments_[k] : static_cast<int64_t>(reinterpret_cast<intptr_t>(x));
    place(*value_, program_, own, value);
    place(*gradient_, program_, own, gradient);
    for (size_t k = 0; k < program_.slots.size(); k++)
      own.table[static_cast<size_t>(program_.slots[k])] =
          own.addresses[static_cast<size_t>(program_.which[k])] + program_.shifts[k];
    own.status = 0;
    alone.run({reinterpret_cast<const Record*>(program_.records.data()),
               static_cast<int64_t>(program_.records.size() / fields), own.table.data(),
               &own.status, nullptr});
    if (own.status) return false;
    copy_out(*value_, own, value);
    copy_out(*gradient_, own, gradient);
    return true;
  }

  const Program& program_;
  const std::vector<int64_t> arguments_;
  const Result *value_, *gradient_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Instance>> free_;
};

// What callers without Python call, with the address of a Function as their data.
int64_t call_function(uint64_t count, const double* x, double* gradient, double* value,
                      void* data) {
  return static_cast<Function*>(data)->call(count, x, gradient, value);
}

constexpr char function_title[] = "treadle.core.native.Function";

void free_function(PyObject* capsule) {
  delete static_cast<Function*>(PyCapsule_GetPointer(capsule, function_title));
  PyObject* kept = static_cast<PyObject*>(PyCapsule_GetContext(capsule));
  Py_XDECREF(kept);
}

// (plan, inputs, slot of the value, slot of the gradient): the capsule, the address of
// the function and that of its data; None where the plan is no such function. Inputs are
// arrays, and None in the place of the vector.
PyObject* function(PyObject*, PyObject* args) {
  PyObject *whole, *inputs;
  Py_ssize_t slots[2];
  if (!PyArg_ParseTuple(args, "O!O!nn", plan_type, &whole, &PyList_Type, &inputs, &slots[0],
                        &slots[1]))
    return nullptr;
  const Plan& plan = *reinterpret_cast<PlanObject*>(whole)->plan;
  if (plan.parts.size() != 1 || !plan.changes.empty()) Py_RETURN_NONE;
  const Part& part = plan.parts[0];
  const Program& program = *reinterpret_cast<ProgramObject*>(part.program.get())->program;
  std::vector<int64_t> arguments;
  for (const Source& x : part.sources) {
    PyObject* given = x.object.get();
    if (x.kind == Source::place)
      given = PyList_GetItem(inputs, static_cast<Py_ssize_t>(x.number));
    if (!given) return nullptr;
    if (given != Py_None && !is_array(given)) Py_RETURN_NONE;
    arguments.push_back(given == Py_None ? 0 : address(given));
  }
  const Result* results[2] = {nullptr, nullptr};
  for (const auto& [number, slot] : part.results)
    for (const Result& x : program.results)
      for (int k = 0; k < 2; k++)
        if (x.number == number && slot == static_cast<size_t>(slots[k])) results[k] = &x;
  if (!results[0] || !results[1] || results[0]->buffer == results[1]->buffer) Py_RETURN_NONE;
  auto own = std::make_unique<Function>(program, std::move(arguments), results[0], results[1]);
  Ref capsule(PyCapsule_New(own.get(), function_title, free_function));
  if (!capsule) return nullptr;
  Function* data = own.release();
  Ref kept(PyTuple_Pack(2, whole, inputs));
  if (!kept || PyCapsule_SetContext(capsule.get(), kept.get()) < 0) return nullptr;
  kept.release();
  return Py_BuildValue("NKK", capsule.release(),
                       static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(&call_function)),
                       static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(data)));
}

PyType_Slot program_slots[] = {
    {Py_tp_doc, const_cast<char*>("A compiled program of small steps.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(free_program)},
    {0, nullptr}};
PyType_Spec program_spec = {
    "treadle.core.native.Program", sizeof(ProgramObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, program_slots};
PyType_Slot plan_slots[] = {
    {Py_tp_doc, const_cast<char*>("A plan of small programs, as it is run.")},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_dealloc, reinterpret_cast<void*>(free_plan)},
    {0, nullptr}};
PyType_Spec plan_spec = {
    "treadle.core.native.RunPlan", sizeof(PlanObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    plan_slots};

}  // namespace

PyMethodDef run_functions[] = {
    {"bind_run", bind_run, METH_O, "bind_run(Variable): whose versions runs assign."},
    {"program", program, METH_VARARGS,
     "program(numbers, results, arena, scratch, kept, table=-1, index=0, zeros=[])"},
    {"program_like", program_like, METH_VARARGS,
     "program_like(program, numbers, arena, scratch, kept, limits)"},
    {"keep_panels", keep_panels, METH_VARARGS,
     "keep_panels(program, (buffers, addresses, ready, arguments), arrays, turn, kept)"},
    {"note_turn", note_turn, METH_O, "note_turn(number): of a run that writes in place."},
    {"plan_like", plan_like, METH_VARARGS, "plan_like(plan, programs)"},
    {"function", function, METH_VARARGS,
     "function(plan, inputs, value, gradient): a capsule, a function of C and its data."},
    {"run_plan", plan, METH_VARARGS,
     "run_plan(parts, changes, cuts, values, slots, nodes, key, numbers, leaves)"},
    {"sought", sought, METH_VARARGS,
     "sought(table, rest, roots, asked, updates, own, most, ends, parts): the key of a graph "
     "that is derived, what the table has for it, and its nodes; or None."},
    {"bind_losses", bind_losses, METH_VARARGS, "bind_losses(assigned, one, LITERAL, Type)"},
    {"seen_loss", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(seen_loss)),
     METH_FASTCALL,
     "seen_loss(table, loss, most): the Variables that a loss trains and their gradients, if "
     "these are known; else as sought, or NotImplemented where Python has to look."},
    {"endangered", endangered, METH_O, "endangered(roots): as autodiff/live.py, or NotImplemented."},
    {"bind_live", bind_live, METH_O, "bind_live(derivatives): as autodiff/live.py."},
    {"bind_holding", bind_holding, METH_VARARGS, "bind_holding(who, let_go): runtime/moved.py."},
    {"follow", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(follow)), METH_FASTCALL,
     "follow(table, rest, roots, asked, updates, own, whole, derived, most, cuts): "
     "NotImplemented where Python has to, None where a graph cannot be looked at; the plan that "
     "was run, the key, the nodes that keep recipes, and the nodes and what was made, of a plan "
     "that puts out more; else False if it failed, None if there "
     "was none for the core, the key, nodes, references of others, what is held, the updates."},
    {"bind_history", bind_history, METH_VARARGS, "bind_history(note, Type): runtime/history.py."},
    {"bind_residuals", bind_residuals, METH_VARARGS, "bind_residuals(MadeBy, Wish)"},
    {"run", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(run)), METH_FASTCALL,
     "run(plan, nodes, others, pool, [frame, updates]): what was made, by slot; () if "
     "something was found wrong, None if not all is plain. Updates are carried out."},
    {nullptr, nullptr, 0, nullptr}};

bool add_run_types(PyObject* module) {
  program_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&program_spec));
  plan_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&plan_spec));
  return program_type && plan_type && PyModule_AddType(module, program_type) == 0 &&
         PyModule_AddType(module, plan_type) == 0;
}

}  // namespace treadle
