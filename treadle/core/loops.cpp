// Branches and loops whose bodies are native programs, with no Python between their steps
// (engines/native/execution/control.py says what is given here).
#include "arrays.hpp"
#include "pool.hpp"

#include <chrono>
#include <cstring>
#include <memory>

namespace treadle {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t fields = sizeof(Record) / sizeof(int64_t);
constexpr auto patience = std::chrono::milliseconds(50);  // that an interrupt may wait

char* pointer(int64_t address) { return reinterpret_cast<char*>(static_cast<intptr_t>(address)); }

int64_t address(const void* x) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(x)); }

void copy(int64_t to, int64_t from, int64_t bytes) {
  if (to != from && bytes) std::memmove(pointer(to), pointer(from), static_cast<size_t>(bytes));
}

// What runs native code, without Python's lock.
class Machine {
 public:
  explicit Machine(Pool& pool) : pool_(pool), last_(Clock::now()) {}

  void run(int64_t* records, int64_t count, int64_t* table, int64_t* status) const {
    pool_.run({reinterpret_cast<const Record*>(records), count, table, status, nullptr});
  }

  // Whether nothing has interrupted the run, which is asked now and then.
  bool goes_on() {
    if ((++count_ & 15) || Clock::now() - last_ < patience) return !interrupted_;
    const PyGILState_STATE state = PyGILState_Ensure();
    interrupted_ = PyErr_CheckSignals() < 0;
    if (interrupted_) PyErr_Fetch(&kind_, &value_, &trace_);
    PyGILState_Release(state);
    last_ = Clock::now();
    return !interrupted_;
  }

  // Raises what has interrupted the run; the lock is held again.
  bool raise() {
    if (interrupted_) PyErr_Restore(kind_, value_, trace_);
    return interrupted_;
  }

 private:
  Pool& pool_;
  Clock::time_point last_;
  uint64_t count_ = 0;
  bool interrupted_ = false;
  PyObject *kind_ = nullptr, *value_ = nullptr, *trace_ = nullptr;
};

struct Control;

// Records that follow each other, or a branch or loop.
struct Piece {
  int64_t record = 0, count = 0;
  std::unique_ptr<Control> control;
};

// A body: its program, and the tables that are its own as long as this lives.
struct Unit {
  int64_t *addresses = nullptr, *table = nullptr, *records = nullptr, *status = nullptr;
  int64_t* later = nullptr;  // the records once what stays has been packed
  const int64_t *slots = nullptr, *which = nullptr, *shifts = nullptr;
  const int64_t* beside = nullptr;  // the addresses of the second blocks of carries
  size_t count = 0;
  std::vector<Piece> pieces;
  std::vector<std::pair<int64_t, size_t>> given;  // buffers, and the op's operands
  std::vector<Ref> kept;

  bool run(Machine& machine, bool again);
};

struct Control {
  std::vector<int64_t> read, written;  // buffers of the program around it
  std::vector<Unit> bodies;

  virtual ~Control() = default;
  // False where a step found something wrong, or the run was interrupted.
  virtual bool run(const int64_t* around, Machine& machine) = 0;
};

bool Unit::run(Machine& machine, bool again) {
  for (size_t k = 0; k < count; k++) table[slots[k]] = addresses[which[k]] + shifts[k];
  int64_t* own = again ? later : records;
  for (Piece& piece : pieces) {
    if (piece.control) {
      if (!piece.control->run(addresses, machine)) return false;
    } else {
      machine.run(own + piece.record * fields, piece.count, table, status);
      if (*status) return false;
    }
  }
  return true;
}

// What an output of a body comes to: `home` is written where it belongs, `copied` is
// copied there, a carry that is `still` never changes, and one that is a `row` lies in
// another output's stack.
struct Output {
  enum Kind { home, copied, still, row } kind;
  int64_t buffer, bytes;
  size_t other;    // the output whose rows a carry is
  int64_t beside;  // which second block of the body is that of a carry
};

// The random numbers of a step, as `drawn_at` has them (ops/loop.py).
struct Draw {
  uint64_t numbers[2];

  void at(int64_t from, int64_t step) {
    std::memcpy(numbers, pointer(from), sizeof numbers);
    numbers[1] += static_cast<uint64_t>(step + 1) << 32;
  }
};

struct Branch : Control {
  std::vector<std::vector<Output>> outputs;

  bool run(const int64_t* around, Machine& machine) override {
    const size_t k = *pointer(around[read[0]]) ? 0 : 1;
    Unit& body = bodies[k];
    for (auto& [buffer, x] : body.given) body.addresses[buffer] = around[read[x]];
    for (size_t j = 0; j < outputs[k].size(); j++)
      if (outputs[k][j].kind == Output::home)
        body.addresses[outputs[k][j].buffer] = around[written[j]];
    if (!body.run(machine, false)) return false;
    for (size_t j = 0; j < outputs[k].size(); j++) {
      const Output& y = outputs[k][j];
      copy(around[written[j]], body.addresses[y.buffer], y.bytes);
    }
    return true;
  }
};

// A body on carries that it gives back.
struct Loop : Control {
  size_t carries = 0, draws = 0;
  std::vector<Output> outputs;

 protected:
  // Places all operands that do not change, and notes where carries begin.
  void begin(const int64_t* around) {
    in_.clear(), out_.clear(), drawn_.resize(draws);
    for (int64_t n : read) in_.push_back(around[n]);
    for (int64_t n : written) out_.push_back(around[n]);
  }

  // One step: `turn` is its number in the order of steps, `row` that of its rows.
  bool step(Unit& body, int64_t turn, int64_t row, size_t scanned,
            const std::vector<int64_t>& strides, Machine& machine) {
    const size_t first = read.size() - draws;
    for (size_t k = 0; k < draws; k++) drawn_[k].at(in_[first + k], row);
    for (auto& [buffer, x] : body.given) {
      int64_t place = x < carries ? state_[x] : in_[x];
      if (x >= carries && x < carries + scanned) place += row * strides[x - carries];
      if (x >= first) place = address(drawn_[x - first].numbers);
      body.addresses[buffer] = place;
    }
    for (size_t k = 0; k < outputs.size(); k++)
      if (outputs[k].kind == Output::home) body.addresses[outputs[k].buffer] = target(k, turn, row);
    if (!body.run(machine, turn > 0)) return false;
    for (size_t k = 0; k < outputs.size(); k++)
      if (outputs[k].kind == Output::copied)
        copy(target(k, turn, row), body.addresses[outputs[k].buffer], outputs[k].bytes);
    for (size_t k = 0; k < carries; k++) {
      const Output& y = outputs[k];
      if (y.kind == Output::still) continue;
      state_[k] = y.kind == Output::row ? target(y.other, turn, row) : target(k, turn, row);
    }
    return machine.goes_on();
  }

  // Where an output of a step goes: a row of a stack, or blocks by turns.
  int64_t target(size_t k, int64_t turn, int64_t row) const {
    const Output& y = outputs[k];
    if (k >= carries) return out_[k] + row * y.bytes;
    return (turn - last_) & 1 ? bodies[0].beside[y.beside] : out_[k];
  }

  // Carries are what they are at the end.
  void end() const {
    for (size_t k = 0; k < carries; k++) copy(out_[k], state_[k], outputs[k].bytes);
  }

  std::vector<int64_t> in_, out_, state_;
  std::vector<Draw> drawn_;
  int64_t last_ = 0;  // the number of the last step, if that is known
};

struct Scan : Loop {
  int64_t length = 0;
  size_t scanned = 0;
  bool reverse = false;
  std::vector<int64_t> strides;

  bool run(const int64_t* around, Machine& machine) override {
    begin(around);
    state_.assign(in_.begin(), in_.begin() + static_cast<Py_ssize_t>(carries));
    last_ = length - 1;
    for (int64_t k = 0; k < length; k++)
      if (!step(bodies[0], k, reverse ? length - 1 - k : k, scanned, strides, machine))
        return false;
    end();
    return true;
  }
};

struct While : Loop {
  int64_t verdict = 0;  // the buffer of the condition
  int8_t answer = 0;    // where it is written, unless it is an operand
  bool is_written = false;

  bool run(const int64_t* around, Machine& machine) override {
    begin(around);
    state_.assign(in_.begin(), in_.begin() + static_cast<Py_ssize_t>(carries));
    Unit &body = bodies[0], &test = bodies[1];
    for (int64_t turn = 0;; turn++) {
      for (auto& [buffer, x] : test.given)
        test.addresses[buffer] = x < carries ? state_[x] : in_[x];
      if (is_written) test.addresses[verdict] = address(&answer);
      if (!test.run(machine, turn > 0)) return false;
      if (!*pointer(test.addresses[verdict])) break;
      if (!step(body, turn, turn, 0, {}, machine)) return false;
    }
    end();
    return true;
  }
};

// -- reading what is given --------------------------------------------------------------

// A part of a tuple, with the exception set where it is not there.
PyObject* part(PyObject* x, Py_ssize_t k) {
  PyObject* found = PyTuple_Check(x) ? PyTuple_GetItem(x, k) : nullptr;
  if (!found && !PyErr_Occurred()) PyErr_BadArgument();
  return found;
}

bool read_numbers(PyObject* list, std::vector<int64_t>& into) {
  if (!list || !PyList_Check(list)) return PyErr_BadArgument(), false;
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); k++)
    into.push_back(number(PyList_GET_ITEM(list, k)));
  return !PyErr_Occurred();
}

bool read_outputs(PyObject* list, std::vector<Output>& into) {
  if (!list || !PyList_Check(list)) return PyErr_BadArgument(), false;
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); k++) {
    int kind;
    long long buffer, bytes, other, beside;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(list, k), "iLLLL", &kind, &buffer, &bytes, &other,
                          &beside))
      return false;
    into.push_back({static_cast<Output::Kind>(kind), buffer, bytes,
                    static_cast<size_t>(other), beside});
  }
  return true;
}

std::unique_ptr<Control> read_control(PyObject* x);

// (addresses, table, slots, which, shifts, records, later, beside, status, pieces, given)
bool read_unit(PyObject* x, Unit& unit) {
  const int64_t** const arrays[] = {
      const_cast<const int64_t**>(&unit.addresses), const_cast<const int64_t**>(&unit.table),
      &unit.slots, &unit.which, &unit.shifts, const_cast<const int64_t**>(&unit.records),
      const_cast<const int64_t**>(&unit.later), &unit.beside};
  Py_ssize_t at = 0;
  for (const int64_t** into : arrays) {
    PyObject* array = part(x, at++);
    if (!array) return false;
    const Given found(array);
    if (!found) return false;
    *into = found.data;
    if (into == &unit.slots) unit.count = found.size;
    unit.kept.push_back(Ref::to(array));
  }
  PyObject *status = part(x, at), *pieces = part(x, at + 1), *given = part(x, at + 2);
  if (!status || !pieces || !given || !PyList_Check(pieces) || !PyList_Check(given))
    return PyErr_Occurred() ? false : (PyErr_BadArgument(), false);
  unit.status = static_cast<int64_t*>(PyLong_AsVoidPtr(status));
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(pieces); k++) {
    long long record, count;
    PyObject* control;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(pieces, k), "LLO", &record, &count, &control))
      return false;
    Piece piece{record, count, nullptr};
    if (control != Py_None && !(piece.control = read_control(control))) return false;
    unit.pieces.push_back(std::move(piece));
  }
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(given); k++) {
    long long buffer;
    Py_ssize_t operand;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(given, k), "Ln", &buffer, &operand)) return false;
    unit.given.push_back({buffer, static_cast<size_t>(operand)});
  }
  return !PyErr_Occurred();
}

// (kind, read, written, bodies, outputs of each, what else a kind has as numbers)
std::unique_ptr<Control> read_control(PyObject* x) {
  PyObject *bodies = part(x, 3), *outputs = bodies ? part(x, 4) : nullptr;
  std::vector<int64_t> more;
  if (!outputs || !PyList_Check(bodies) || !PyList_Check(outputs) ||
      !read_numbers(part(x, 5), more))
    return PyErr_Occurred() ? nullptr : (PyErr_BadArgument(), nullptr);
  std::unique_ptr<Control> made;
  PyObject* kind = part(x, 0);
  const char* name = kind ? PyUnicode_AsUTF8(kind) : nullptr;
  if (!name) return nullptr;
  PyObject* of_first = PyList_GET_SIZE(outputs) ? PyList_GET_ITEM(outputs, 0) : nullptr;
  if (!std::strcmp(name, "branch")) {
    auto own = std::make_unique<Branch>();
    own->outputs.resize(2);
    for (size_t k = 0; k < 2; k++)
      if (!read_outputs(PyList_GetItem(outputs, static_cast<Py_ssize_t>(k)), own->outputs[k]))
        return nullptr;
    made = std::move(own);
  } else if (!std::strcmp(name, "scan") && more.size() >= 5) {
    auto own = std::make_unique<Scan>();
    own->carries = static_cast<size_t>(more[0]);
    own->draws = static_cast<size_t>(more[1]);
    own->length = more[2];
    own->reverse = more[3] != 0;
    own->scanned = static_cast<size_t>(more[4]);
    own->strides.assign(more.begin() + 5, more.end());
    if (!read_outputs(of_first, own->outputs)) return nullptr;
    made = std::move(own);
  } else if (!std::strcmp(name, "while") && more.size() == 4) {
    auto own = std::make_unique<While>();
    own->carries = static_cast<size_t>(more[0]);
    own->draws = static_cast<size_t>(more[1]);
    own->verdict = more[2];
    own->is_written = more[3] != 0;
    if (!read_outputs(of_first, own->outputs)) return nullptr;
    made = std::move(own);
  } else {
    PyErr_BadArgument();
    return nullptr;
  }
  if (!read_numbers(part(x, 1), made->read) || !read_numbers(part(x, 2), made->written))
    return nullptr;
  made->bodies.resize(static_cast<size_t>(PyList_GET_SIZE(bodies)));
  for (size_t k = 0; k < made->bodies.size(); k++)
    if (!read_unit(PyList_GET_ITEM(bodies, static_cast<Py_ssize_t>(k)), made->bodies[k]))
      return nullptr;
  return made;
}

constexpr char title[] = "treadle.core.native.Control";

void free_control(PyObject* capsule) {
  delete static_cast<Control*>(PyCapsule_GetPointer(capsule, title));
}

PyObject* control(PyObject*, PyObject* x) {
  std::unique_ptr<Control> made = read_control(x);
  if (!made) return nullptr;
  PyObject* found = PyCapsule_New(made.get(), title, free_control);
  if (found) made.release();
  return found;
}

PyObject* run_control(PyObject*, PyObject* const* args, Py_ssize_t given) {
  if (given != 3) return PyErr_BadArgument(), nullptr;
  auto* own = static_cast<Control*>(PyCapsule_GetPointer(args[0], title));
  if (!own) return nullptr;
  const Given around(args[1]);
  Pool* pool = around ? pool_of(args[2]) : nullptr;
  if (!pool) return nullptr;
  Ref kept[] = {Ref::to(args[0]), Ref::to(args[1]), Ref::to(args[2])};
  Machine machine(*pool);
  bool well;
  Py_BEGIN_ALLOW_THREADS
  well = own->run(around.data, machine);
  Py_END_ALLOW_THREADS
  if (machine.raise()) return nullptr;
  return PyBool_FromLong(well);
}

}  // namespace

PyMethodDef loop_functions[] = {
    {"control", control, METH_O,
     "control((kind, read, written, bodies, outputs, more)): a branch or loop to be run."},
    {"run_control", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(run_control)),
     METH_FASTCALL,
     "run_control(control, addresses, pool): whether no step found anything wrong."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace treadle
