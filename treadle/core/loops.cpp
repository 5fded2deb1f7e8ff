// Branches and loops whose bodies are native programs, with no Python between their steps
// (engines/native/execution/control.py says what is given here).
#include "arrays.hpp"
#include "pool.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

namespace treadle {
namespace {

constexpr int64_t fields = sizeof(Record) / sizeof(int64_t);

char* pointer(int64_t address) { return reinterpret_cast<char*>(static_cast<intptr_t>(address)); }

int64_t* integers(int64_t address) { return reinterpret_cast<int64_t*>(pointer(address)); }

int64_t address(const void* x) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(x)); }

void copy(int64_t to, int64_t from, int64_t bytes) {
  if (to != from && bytes) std::memmove(pointer(to), pointer(from), static_cast<size_t>(bytes));
}

// Integers that Python holds.
struct Integers {
  const int64_t* data = nullptr;
  size_t size = 0;
  Ref kept;

  bool read(PyObject* x) {
    if (!x) return false;
    const Given found(x);
    if (found) data = found.data, size = found.size, kept = Ref::to(x);
    return static_cast<bool>(found);
  }
};

// The rows of some slices of a loop, one after the other: all slices but the last ones
// have a row more where they do not come out even.
struct Slice {
  int64_t begin = 0, end = 1, slices = 1, rows = 1;

  int64_t first() const { return before(begin); }
  int64_t last() const { return before(end); }

  // Copies what is there of these rows.
  void copy_rows(int64_t to, int64_t from, int64_t bytes) const {
    const int64_t row = bytes / rows;
    copy(to + row * first(), from + row * first(), row * (last() - first()));
  }

 private:
  int64_t before(int64_t k) const { return rows / slices * k + std::min(k, rows % slices); }
};

// The program of a body: its tables as they are before a run, and where those of a run
// and its arena begin in the memory of all bodies.
struct Body {
  Integers addresses, table, slots, which, shifts, records;
  Integers later;           // the records once what stays has been packed
  Integers placed, places;  // buffers, and where they lie in that memory
  Integers given, operands;  // buffers, and the op's operands that these are
  Integers items;            // of each record for a row; 0: its items are shared out evenly
  int64_t at_addresses = 0, at_table = 0;
};

// A body in a run.
class Frame {
 public:
  int64_t* const addresses;

  Frame(const Body& body, int64_t memory, int64_t scratch, int64_t status)
      : addresses(integers(memory + body.at_addresses)),
        body_(body),
        table_(integers(memory + body.at_table)),
        status_(integers(status)) {
    std::memcpy(addresses, body.addresses.data, body.addresses.size * sizeof(int64_t));
    std::memcpy(table_, body.table.data, body.table.size * sizeof(int64_t));
    for (size_t k = 0; k < body.placed.size; k++)
      addresses[body.placed.data[k]] = memory + body.places.data[k];
    addresses[body.addresses.size - 2] = scratch;
    addresses[body.addresses.size - 1] = status;
  }

  // Tells where operands lie, by their numbers.
  template <typename F>
  void give(F place) {
    for (size_t k = 0; k < body_.given.size; k++)
      addresses[body_.given.data[k]] = place(static_cast<size_t>(body_.operands.data[k]));
  }

  // Whether no step found anything wrong; it may have run `before`.
  bool run(const Runner& runner, bool before) {
    fill();
    const Integers& own = before ? body_.later : body_.records;
    const auto* records = reinterpret_cast<const Record*>(own.data);
    runner.run({records, static_cast<int64_t>(own.size) / fields, table_, status_, nullptr});
    return !shared(status_).load(std::memory_order_relaxed);
  }

  // The same for some rows, by this thread.
  bool run(const Slice& slice) {
    fill();
    const auto* records = reinterpret_cast<const Record*>(body_.records.data);
    for (size_t k = 0; k < body_.items.size; k++) {
      const Record& x = records[k];
      const int64_t items = body_.items.data[k], part = x.total / slice.slices;
      const int64_t begin = items ? items * slice.first() : part * slice.begin;
      const int64_t end = items ? items * slice.last() : part * slice.end;
      if (begin < end) x.step(table_ + x.arguments, begin, end, 0);
      if (shared(status_).load(std::memory_order_relaxed)) return false;
    }
    return true;
  }

 private:
  // The table, once addresses are there.
  void fill() {
    for (size_t k = 0; k < body_.slots.size; k++)
      table_[body_.slots.data[k]] = addresses[body_.which.data[k]] + body_.shifts.data[k];
  }

  const Body& body_;
  int64_t *const table_, *const status_;
};

// What an output of a body comes to: `home` is written where it belongs, `copied` is
// copied there, a carry that is `still` never changes, and one that is a `row` lies in
// another output's stack. A stack of what a carry was `before` each step has that carry.
struct Output {
  enum Kind { home, copied, still, row, before } kind;
  int64_t buffer, bytes;
  size_t other;        // the output whose rows a carry is, or the carry that was before
  int64_t second;      // where in the memory the second block of a carry is
  int64_t stack = -1;  // the output that has what a carry was before each step
};

// The random numbers of a step, as `drawn_at` has them (ops/loop.py).
struct Draw {
  uint64_t numbers[2];

  void at(int64_t from, int64_t step) {
    std::memcpy(numbers, pointer(from), sizeof numbers);
    numbers[1] += static_cast<uint64_t>(step + 1) << 32;
  }
};

// A branch or loop: how many operands it reads and results it writes, and its bodies.
struct Nested : Control {
  size_t read = 0, written = 0;
  std::vector<Body> bodies;
  std::vector<std::vector<Output>> outputs;  // of each of them

  // The arguments of a run.
  struct Arguments {
    const int64_t *in, *out;
    int64_t memory, scratch, status;
  };

  Arguments of(const int64_t* x) const {
    const int64_t* rest = x + read + written;
    return {x, x + read, rest[0], rest[1], rest[2]};
  }

  Frame frame(size_t k, const Arguments& own) const {
    return Frame(bodies[k], own.memory, own.scratch, own.status);
  }
};

struct Branch : Nested {
  void run(const int64_t* arguments, const Runner& runner) const override {
    const Arguments own = of(arguments);
    const size_t k = *pointer(own.in[0]) ? 0 : 1;
    Frame body = frame(k, own);
    body.give([&](size_t x) { return own.in[x]; });
    for (size_t j = 0; j < written; j++)
      if (outputs[k][j].kind == Output::home)
        body.addresses[outputs[k][j].buffer] = own.out[j];
    if (!body.run(runner, false)) return;
    for (size_t j = 0; j < written; j++)
      copy(own.out[j], body.addresses[outputs[k][j].buffer], outputs[k][j].bytes);
  }
};

// A body on carries that it gives back. The memory begins with where these lie, and the
// random numbers of a step.
struct Loop : Nested {
  size_t carries = 0, draws = 0, scanned = 0;
  std::vector<int64_t> strides;  // of the rows of each operand that is scanned

 protected:
  struct State {
    const Arguments& own;
    int64_t* carried;
    Draw* drawn;
    Slice slice;
    int64_t last = 0;  // the number of the last step, if that is known
    int64_t way = 1;   // from a row to that of the next step
  };

  State begin(const Arguments& own, int64_t memory, const Slice& slice) const {
    int64_t* carried = integers(memory);
    std::memcpy(carried, own.in, carries * sizeof(int64_t));
    return {own, carried, reinterpret_cast<Draw*>(carried + carries), slice};
  }

  // One step: `turn` is its number in the order of steps, `row` that of its rows.
  bool step(Frame& body, const State& at, int64_t turn, int64_t row,
            const Runner& runner) const {
    const std::vector<Output>& own = outputs[0];
    const size_t first = read - draws;
    for (size_t k = 0; k < draws; k++) at.drawn[k].at(at.own.in[first + k], row);
    body.give([&](size_t x) {
      if (x < carries) return at.carried[x];
      if (x >= first) return address(at.drawn[x - first].numbers);
      return at.own.in[x] + (x < carries + scanned ? row * strides[x - carries] : 0);
    });
    for (size_t k = 0; k < own.size(); k++)
      if (own[k].kind == Output::home) body.addresses[own[k].buffer] = target(k, at, turn, row);
    const bool whole = at.slice.slices == 1;
    if (!(whole ? body.run(runner, turn > 0) : body.run(at.slice))) return false;
    for (size_t k = 0; k < own.size(); k++)
      if (own[k].kind == Output::copied)
        at.slice.copy_rows(target(k, at, turn, row), body.addresses[own[k].buffer],
                           own[k].bytes);
    for (size_t k = 0; k < carries; k++)
      if (own[k].kind != Output::still)
        at.carried[k] = target(own[k].kind == Output::row ? own[k].other : k, at, turn, row);
    if (!runner.watch || runner.watch->goes_on()) return true;
    shared(integers(at.own.status)).store(1, std::memory_order_relaxed);
    return false;
  }

  // Where an output of a step goes: a row of a stack, or blocks by turns.
  int64_t target(size_t k, const State& at, int64_t turn, int64_t row) const {
    const Output& y = outputs[0][k];
    if (k >= carries) return at.own.out[k] + row * y.bytes;
    if (turn == at.last) return at.own.out[k];
    if (y.stack >= 0) return at.own.out[y.stack] + (row + at.way) * y.bytes;
    return (turn - at.last) & 1 ? at.own.memory + y.second : at.own.out[k];
  }

  // Carries are what they are at the end.
  void end(const State& at) const {
    for (size_t k = 0; k < carries; k++)
      at.slice.copy_rows(at.own.out[k], at.carried[k], outputs[0][k].bytes);
  }
};

// The rows of the state may be cut in slices: a thread takes its share of them through
// all steps, as one, and meets no other one in between, with tables and arena of its own.
struct Scan : Loop {
  int64_t length = 0;
  bool reverse = false;
  int64_t slices = 1, rows = 1;
  int64_t frame_bytes = 0, scratch_bytes = 0;  // of a slice, and of a worker

  void run(const int64_t* arguments, const Runner& runner) const override {
    const Arguments own = of(arguments);
    if (slices == 1 || !runner.leased) return go({own, own.memory, {}}, runner);
    const Sliced every{*this, own, runner};
    runner.share(run_slices, reinterpret_cast<const int64_t*>(&every), slices,
                 integers(own.status));
  }

 private:
  struct Part {
    Arguments own;
    int64_t memory;
    Slice slice;
  };

  struct Sliced {
    const Scan& scan;
    const Arguments& own;
    const Runner& runner;
  };

  static void run_slices(const int64_t* arguments, int64_t begin, int64_t end,
                         int64_t worker) {
    const Sliced& every = *reinterpret_cast<const Sliced*>(arguments);
    const Scan& scan = every.scan;
    Arguments own = every.own;
    own.scratch += worker * scan.scratch_bytes;
    const Runner alone{every.runner.pool, false, worker ? nullptr : every.runner.watch};
    const Slice slice{begin, end, scan.slices, scan.rows};
    scan.go({own, own.memory + begin * scan.frame_bytes, slice}, alone);
  }

  void go(const Part& part, const Runner& runner) const {
    const Arguments& own = part.own;
    State at = begin(own, part.memory, part.slice);
    at.last = length - 1, at.way = reverse ? -1 : 1;
    for (size_t k = 0; k < carries && length; k++) {
      const Output& y = outputs[0][k];
      if (y.stack < 0) continue;
      const int64_t first = own.out[y.stack] + (reverse ? at.last * y.bytes : 0);
      part.slice.copy_rows(first, at.carried[k], y.bytes);
      at.carried[k] = first;
    }
    Frame body(bodies[0], part.memory, own.scratch, own.status);
    for (int64_t k = 0; k < length; k++)
      if (!step(body, at, k, reverse ? at.last - k : k, runner)) return;
    end(at);
  }
};

struct While : Loop {
  int64_t verdict = 0;     // the buffer of the condition
  bool is_written = false;  // by the test, which may be an operand

  void run(const int64_t* arguments, const Runner& runner) const override {
    const Arguments own = of(arguments);
    const State at = begin(own, own.memory, {});
    Frame body = frame(0, own), test = frame(1, own);
    int8_t answer = 0;
    if (is_written) test.addresses[verdict] = address(&answer);
    for (int64_t turn = 0;; turn++) {
      test.give([&](size_t x) { return x < carries ? at.carried[x] : own.in[x]; });
      if (!test.run(runner, turn > 0)) return;
      if (!*pointer(test.addresses[verdict])) break;
      if (!step(body, at, turn, turn, runner)) return;
    }
    end(at);
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
    long long buffer, bytes, other, second;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(list, k), "iLLLL", &kind, &buffer, &bytes, &other,
                          &second))
      return false;
    into.push_back({static_cast<Output::Kind>(kind), buffer, bytes,
                    static_cast<size_t>(other), second});
  }
  for (size_t k = 0; k < into.size(); k++)
    if (into[k].kind == Output::before) {
      if (into[k].other >= into.size()) return PyErr_BadArgument(), false;
      into[into[k].other].stack = static_cast<int64_t>(k);
    }
  return true;
}

// (addresses, table, slots, which, shifts, records, later, placed, places, given,
// operands, items, where addresses and table of a run begin)
bool read_body(PyObject* x, Body& body) {
  Integers* const arrays[] = {&body.addresses, &body.table, &body.slots,   &body.which,
                              &body.shifts,    &body.records, &body.later, &body.placed,
                              &body.places,    &body.given, &body.operands, &body.items};
  Py_ssize_t at = 0;
  for (Integers* into : arrays)
    if (!into->read(part(x, at++))) return false;
  PyObject *addresses = part(x, at), *table = part(x, at + 1);
  if (!addresses || !table) return false;
  body.at_addresses = number(addresses), body.at_table = number(table);
  return !PyErr_Occurred();
}

// What a kind has as numbers beside its bodies; null, with the exception set, of none.
std::unique_ptr<Nested> made_of(const char* name, const std::vector<int64_t>& more) {
  const auto loop = [&](auto own) {
    own->carries = static_cast<size_t>(more[0]), own->draws = static_cast<size_t>(more[1]);
    return own;
  };
  if (!std::strcmp(name, "branch")) return std::make_unique<Branch>();
  if (!std::strcmp(name, "scan") && more.size() >= 9) {
    auto own = loop(std::make_unique<Scan>());
    own->length = more[2], own->reverse = more[3] != 0;
    own->scanned = static_cast<size_t>(more[4]);
    own->slices = more[5], own->rows = more[6];
    own->frame_bytes = more[7], own->scratch_bytes = more[8];
    own->strides.assign(more.begin() + 9, more.end());
    if (own->strides.size() == own->scanned) return own;
  }
  if (!std::strcmp(name, "while") && more.size() == 4) {
    auto own = loop(std::make_unique<While>());
    own->verdict = more[2], own->is_written = more[3] != 0;
    return own;
  }
  PyErr_BadArgument();
  return nullptr;
}

constexpr char title[] = "treadle.core.native.Control";

void free_control(PyObject* capsule) {
  delete static_cast<Control*>(PyCapsule_GetPointer(capsule, title));
}

// (kind, how many are read, and written, bodies, outputs of each, more numbers): a
// capsule, and the address that a record has.
PyObject* control(PyObject*, PyObject* args) {
  const char* name;
  Py_ssize_t read, written;
  PyObject *bodies, *outputs, *numbers;
  if (!PyArg_ParseTuple(args, "snnO!O!O!", &name, &read, &written, &PyList_Type, &bodies,
                        &PyList_Type, &outputs, &PyList_Type, &numbers))
    return nullptr;
  std::vector<int64_t> more;
  if (!read_numbers(numbers, more)) return nullptr;
  std::unique_ptr<Nested> made = made_of(name, more);
  if (!made) return nullptr;
  made->read = static_cast<size_t>(read), made->written = static_cast<size_t>(written);
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(bodies); k++) {
    made->bodies.emplace_back(), made->outputs.emplace_back();
    if (!read_body(PyList_GET_ITEM(bodies, k), made->bodies.back()) ||
        !read_outputs(PyList_GetItem(outputs, k), made->outputs.back()))
      return nullptr;
  }
  const Control* own = made.get();
  Ref capsule(PyCapsule_New(const_cast<Control*>(own), title, free_control));
  if (!capsule) return nullptr;
  made.release();
  return Py_BuildValue("NL", capsule.release(), static_cast<long long>(address(own)));
}

}  // namespace

PyMethodDef loop_functions[] = {
    {"control", control, METH_VARARGS,
     "control(kind, read, written, bodies, outputs, more): a branch or loop for records."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace treadle
