// Programs for sizes never seen: the integers of a table (base/symbolic/table.py), where
// ranges lie in an arena (program/stack.py), and graphs without their extents
// (graph/extents.py).
#include "arrays.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace treadle {
namespace {

// The operators of rows, as base/symbolic/table.py has them.
enum Operator : int64_t {
  CONSTANT, ADD, OFFSET, MULTIPLY, SCALE, QUOTIENT, REMAINDER,
  LEAST, MOST, EXCEEDS, SHIFT_LEFT, SHIFT_RIGHT, BITS, DIVISOR,
  CALL, NUMBER, OBJECT,
  AT_LEAST, AT_MOST, EQUAL, UNEQUAL, SAME
};

constexpr int64_t lowest = std::numeric_limits<int64_t>::min();

// Sums, products and quotients, and whether they are integers of 64 bits.
bool sum(int64_t x, int64_t y, int64_t& into) {
  into = static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
  return ((x ^ into) & (y ^ into)) >= 0;
}
bool product(int64_t x, int64_t y, int64_t& into) {
  if ((x == -1 && y == lowest) || (y == -1 && x == lowest)) return false;
  into = static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
  return y == 0 || into / y == x;
}
bool quotient(int64_t x, int64_t y, int64_t& into) {
  if (y == 0 || (x == lowest && y == -1)) return false;
  into = x / y - (x % y != 0 && (x < 0) != (y < 0));
  return true;
}
bool remainder(int64_t x, int64_t y, int64_t& into) {
  if (y == 0) return false;
  into = y == -1 ? 0 : x % y;
  if (into != 0 && (into < 0) != (y < 0)) into += y;
  return true;
}
bool shifted(int64_t x, int64_t by, int64_t& into) {
  if (by < 0 || by > 63) return into = 0, by > 63 && x == 0;
  into = static_cast<int64_t>(static_cast<uint64_t>(x) << by);
  return into >> by == x;
}

uint64_t magnitude(int64_t x) {
  return x < 0 ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
}
int64_t bits(int64_t x) {
  int64_t count = 0;
  for (uint64_t rest = magnitude(x); rest; rest >>= 1) count++;
  return count;
}
bool divisor(int64_t x, int64_t y, int64_t& into) {
  const uint64_t found = std::gcd(magnitude(x), magnitude(y));
  into = static_cast<int64_t>(found);
  return into >= 0;
}

// Values by number: integers, or objects.
class Values {
 public:
  explicit Values(size_t most) {
    integers_.reserve(most);
    objects_.reserve(most);
  }
  size_t count() const { return integers_.size(); }
  void put(int64_t x) { integers_.push_back(x), objects_.emplace_back(); }
  void put(Ref x) { integers_.push_back(0), objects_.push_back(std::move(x)); }
  int64_t operator[](int64_t k) const { return integers_[static_cast<size_t>(k)]; }
  bool has(int64_t k) const { return k >= 0 && static_cast<size_t>(k) < count(); }
  bool is_object(int64_t k) const {
    return static_cast<bool>(objects_[static_cast<size_t>(k)]);
  }
  Ref object(int64_t k) const {
    return is_object(k) ? objects_[static_cast<size_t>(k)]
                        : Ref(PyLong_FromLongLong((*this)[k]));
  }

 private:
  std::vector<int64_t> integers_;
  std::vector<Ref> objects_;
};

// Whether a row has an integer, which is `into` then.
bool computed(int64_t op, const Values& v, int64_t a, int64_t b, int64_t& into) {
  switch (op) {
    case ADD: return sum(v[a], v[b], into);
    case OFFSET: return sum(v[a], b, into);
    case MULTIPLY: return product(v[a], v[b], into);
    case SCALE: return product(v[a], b, into);
    case QUOTIENT: return quotient(v[a], v[b], into);
    case REMAINDER: return remainder(v[a], v[b], into);
    case LEAST: return into = std::min(v[a], v[b]), true;
    case MOST: return into = std::max(v[a], v[b]), true;
    case EXCEEDS: return into = v[a] > v[b], true;
    case SHIFT_LEFT: return shifted(v[a], v[b], into);
    case SHIFT_RIGHT:
      into = v[a] >> std::clamp<int64_t>(v[b], 0, 63);
      return v[b] >= 0;
    case BITS: return into = bits(v[a]), true;
    default: return divisor(v[a], v[b], into);
  }
}

bool holds(int64_t op, const Values& v, int64_t a, int64_t b) {
  switch (op) {
    case AT_LEAST: return v[a] >= b;
    case AT_MOST: return v[a] <= b;
    case EQUAL: return v[a] == b;
    case UNEQUAL: return v[a] != b;
    default: return v[a] == v[b];
  }
}

bool reads_two(int64_t op) {
  return op != OFFSET && op != SCALE && op != BITS && (op < AT_LEAST || op == SAME);
}

// What a function makes of values; null where Python has raised something.
Ref called(const Values& values, const Given& operands, int64_t first, int64_t count) {
  std::vector<Ref> given;
  std::vector<PyObject*> borrowed;
  for (int64_t k = first; k < first + count; k++) {
    const int64_t number = operands[static_cast<size_t>(k)];
    if (!values.has(number)) return PyErr_BadArgument(), Ref();
    given.push_back(values.object(number));
    if (!given.back()) return Ref();
    borrowed.push_back(given.back().get());
  }
  return Ref(PyObject_Vectorcall(borrowed[0], borrowed.data() + 1,
                                 static_cast<size_t>(count - 1), nullptr));
}

// Whether a quotient by nothing, or an integer that is too large, has been raised: then
// nothing is any more.
bool is_arithmetic() {
  if (!PyErr_ExceptionMatches(PyExc_ArithmeticError) &&
      !PyErr_ExceptionMatches(PyExc_ValueError))
    return false;
  PyErr_Clear();
  return true;
}

enum class Outcome { well, none, raised };

Outcome row(const int64_t* x, const Given& operands, PyObject* objects, Values& values) {
  const int64_t op = x[0], a = x[1], b = x[2];
  if (op == CONSTANT) return values.put(a), Outcome::well;
  if (op == OBJECT) {
    if (a < 0 || a >= PyTuple_GET_SIZE(objects)) return PyErr_BadArgument(), Outcome::raised;
    return values.put(Ref::to(PyTuple_GET_ITEM(objects, a))), Outcome::well;
  }
  if (op == CALL || op == NUMBER) {
    if (a < 0 || b < 1 || a + b > static_cast<int64_t>(operands.size))
      return PyErr_BadArgument(), Outcome::raised;
    Ref made = called(values, operands, a, b);
    if (op == NUMBER && made) return values.put(std::move(made)), Outcome::well;
    const int64_t found = made ? PyLong_AsLongLong(made.get()) : -1;
    if (PyErr_Occurred()) return is_arithmetic() ? Outcome::none : Outcome::raised;
    return values.put(found), Outcome::well;
  }
  if (op < CONSTANT || op > SAME || !values.has(a) || (reads_two(op) && !values.has(b)))
    return PyErr_BadArgument(), Outcome::raised;
  if (op >= AT_LEAST) return holds(op, values, a, b) ? Outcome::well : Outcome::none;
  int64_t found = 0;
  if (!computed(op, values, a, b, found)) return Outcome::none;
  return values.put(found), Outcome::well;
}

PyObject* evaluate(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 5 || !PyTuple_Check(args[3])) return PyErr_BadArgument(), nullptr;
  Ref sizes(PySequence_Fast(args[4], "sizes are several integers"));
  Given operands(args[1]), wanted(args[2]);
  if (!sizes || !operands || !wanted) return nullptr;
  if (!PyArray_Check(args[0]) || PyArray_TYPE(array_of(args[0])) != NPY_INT64 ||
      PyArray_NDIM(array_of(args[0])) != 2 || PyArray_DIM(array_of(args[0]), 1) != 3 ||
      !PyArray_IS_C_CONTIGUOUS(array_of(args[0])))
    return PyErr_BadArgument(), nullptr;
  const auto* rows = static_cast<const int64_t*>(PyArray_DATA(array_of(args[0])));
  const npy_intp rows_count = PyArray_DIM(array_of(args[0]), 0);
  const Py_ssize_t inputs = PySequence_Fast_GET_SIZE(sizes.get());
  Values values(static_cast<size_t>(inputs + rows_count));
  for (Py_ssize_t k = 0; k < inputs; k++) {
    const int64_t x = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(sizes.get(), k));
    if (x == -1 && PyErr_Occurred()) {
      if (is_arithmetic()) Py_RETURN_NONE;
      return nullptr;
    }
    values.put(x);
  }
  for (npy_intp k = 0; k < rows_count; k++) {
    const Outcome outcome = row(rows + 3 * k, operands, args[3], values);
    if (outcome == Outcome::none) Py_RETURN_NONE;
    if (outcome == Outcome::raised) return nullptr;
  }
  Ref found(PyList_New(static_cast<Py_ssize_t>(wanted.size)));
  for (size_t k = 0; found && k < wanted.size; k++) {
    if (!values.has(wanted[k])) return PyErr_BadArgument(), nullptr;
    Ref x = values.object(wanted[k]);
    if (!x) return nullptr;
    PyList_SET_ITEM(found.get(), static_cast<Py_ssize_t>(k), x.release());
  }
  return found.release();
}

// The integer that a float passes as (loops/parameters.py).
PyObject* bits_of(PyObject*, PyObject* x) {
  const double value = PyFloat_AsDouble(x);
  if (value == -1 && PyErr_Occurred()) return nullptr;
  int64_t found;
  std::memcpy(&found, &value, sizeof found);
  return PyLong_FromLongLong(found);
}

// Whether machine code knows a float, with either sign: 0, 0.5, 1, 2, infinity.
PyObject* is_plain(PyObject*, PyObject* x) {
  const double value = PyFloat_AsDouble(x);
  if (value == -1 && PyErr_Occurred()) return nullptr;
  const double size = std::fabs(value);
  return PyLong_FromLong(size == 0 || size == 0.5 || size == 1 || size == 2 || std::isinf(size));
}

// (like, places, slots, values): a copy in which the values of slots are in places.
PyObject* filled(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 4 || !PyList_Check(args[3])) return PyErr_BadArgument(), nullptr;
  Given like(args[0]), places(args[1]), slots(args[2]);
  if (!like || !places || !slots) return nullptr;
  Numbers made(like.size);
  if (!made) return nullptr;
  std::copy(like.data, like.data + like.size, made.data);
  for (size_t k = 0; k < places.size; k++) {
    const auto place = static_cast<size_t>(places[k]);
    const auto slot = k < slots.size ? static_cast<Py_ssize_t>(slots[k]) : -1;
    if (place >= like.size || slot < 0 || slot >= PyList_GET_SIZE(args[3]))
      return PyErr_BadArgument(), nullptr;
    made.data[place] = PyLong_AsLongLong(PyList_GET_ITEM(args[3], slot));
  }
  return PyErr_Occurred() ? nullptr : made.release();
}

// -- memory -----------------------------------------------------------------------------

// The most that ranges take at a time, whatever threads do, by the first steps of the
// chain and the region of each step (Times.most of program/sweep.py).
int64_t most(const Given& first, const Given& last, const std::vector<int64_t>& sizes,
             const Given& chain, const Given& region) {
  const size_t count = chain.size;
  const auto at = [](int64_t step) { return static_cast<size_t>(step); };
  std::vector<size_t> out(count), stop(count);  // where its chain and its region end
  for (size_t k = count; k-- > 0;) {
    const bool within = k + 1 < count;
    out[k] = within && chain[k + 1] == chain[k] ? out[k + 1] : k + 1;
    stop[k] = within && region[k + 1] == region[k] ? stop[k + 1] : k + 1;
  }
  std::vector<int64_t> through(count + 1), alone(count + 1);
  const auto add = [](std::vector<int64_t>& where, size_t begin, size_t end, int64_t size) {
    where[begin] += size;
    where[end] -= size;
  };
  for (size_t k = 0; k < sizes.size(); k++) {
    const size_t a = at(first[k]), b = at(last[k]);
    if (region[a] == region[b]) {
      add(alone, a, b + 1, sizes[k]);
      continue;
    }
    add(alone, a, out[a], sizes[k]);
    add(alone, at(chain[b]), b + 1, sizes[k]);
    add(through, stop[a], at(region[b]), sizes[k]);
  }
  int64_t found = 0, own = 0, held = 0, beside = 0, peak = 0;
  for (size_t k = 0; k < count; k++) {
    held += through[k], own += alone[k];
    peak = std::max(peak, own);
    if (out[k] == k + 1) beside += std::exchange(peak, 0);
    if (stop[k] == k + 1) found = std::max(found, held + std::exchange(beside, 0));
  }
  return found;
}

bool are_below(const Given& numbers, size_t most) {
  return std::all_of(numbers.data, numbers.data + numbers.size, [most](int64_t x) {
    return x >= 0 && static_cast<uint64_t>(x) < most;
  });
}

// (order, starts, under, first, last, chain, region, bytes, alignment): of each range its
// offset, the height of all, and the most that they take at a time. A range lies on the
// highest of those that are under it.
PyObject* stacked(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 9) return PyErr_BadArgument(), nullptr;
  Given order(args[0]), starts(args[1]), under(args[2]), first(args[3]), last(args[4]);
  Given chain(args[5]), region(args[6]), bytes(args[7]);
  for (const Given* x : {&order, &starts, &under, &first, &last, &chain, &region, &bytes})
    if (!*x) return nullptr;
  const int64_t alignment = PyLong_AsLongLong(args[8]);
  if (alignment < 1) return PyErr_Occurred() ? nullptr : (PyErr_BadArgument(), nullptr);
  std::vector<int64_t> sizes(bytes.data, bytes.data + bytes.size);
  for (int64_t& x : sizes) x = (x + alignment - 1) / alignment * alignment;
  const size_t ranges = sizes.size(), steps = chain.size;
  bool sound = order.size == ranges && first.size == ranges && last.size == ranges &&
               region.size == steps && starts.size == ranges + 1 && starts[0] == 0 &&
               starts[ranges] == static_cast<int64_t>(under.size) &&
               are_below(order, ranges) && are_below(under, ranges) &&
               are_below(first, steps) && are_below(last, steps) &&
               are_below(chain, steps) && are_below(region, steps);
  for (size_t k = 0; sound && k < ranges; k++)
    sound = starts[k] <= starts[k + 1] && first[k] <= last[k];
  if (!sound) return PyErr_BadArgument(), nullptr;
  Numbers offsets(ranges);
  if (!offsets) return nullptr;
  std::fill(offsets.data, offsets.data + ranges, 0);
  int64_t height = 0;
  for (size_t k = 0; k < ranges; k++) {
    const auto own = static_cast<size_t>(order[k]);
    int64_t offset = 0;
    for (int64_t j = starts[k]; j < starts[k + 1]; j++) {
      const auto other = static_cast<size_t>(under[static_cast<size_t>(j)]);
      offset = std::max(offset, offsets.data[other] + sizes[other]);
    }
    offsets.data[own] = offset;
    height = std::max(height, offset + sizes[own]);
  }
  return Py_BuildValue("NLL", offsets.release(), static_cast<long long>(height),
                       static_cast<long long>(most(first, last, sizes, chain, region)));
}

// -- graphs without extents -----------------------------------------------------------

// Adds the integers of a tuple.
bool add(PyObject* tuple, std::vector<int64_t>& into) {
  if (!PyTuple_Check(tuple)) return PyErr_BadArgument(), false;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); k++)
    into.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, k)));
  return !PyErr_Occurred();
}

// What a table has, or what a function makes where it has none; null where Python has
// raised something.
Ref known(PyObject* table, PyObject* key, PyObject* function) {
  PyObject* found = key ? PyDict_GetItemWithError(table, key) : nullptr;
  if (found || !key || PyErr_Occurred()) return Ref::to(found);
  return Ref(PyObject_CallOneArg(function, key));
}

// The words of a graph's key without its extents, and these (graph/extents.py).
class Family {
 public:
  Family(PyObject* table, PyObject* numbered, PyObject* written, int64_t base, int64_t code)
      : table_(table), numbered_(numbered), written_(written), base_(base), literal_(code) {}

  std::vector<int64_t> parts, extents;

  Outcome take(const std::vector<int64_t>& words) {
    for (size_t k = 0; k < words.size();) {
      const int64_t word = words[k++];
      if (word >= 0) {
        parts.push_back(word);
        continue;
      }
      int64_t own = 0, code = 0;
      quotient(word, base_, own), remainder(word, base_, code);
      Ref key(PyLong_FromLongLong(own)), found = known(table_, key.get(), numbered_);
      if (!found) return Outcome::raised;
      if (found.get() == Py_None) return Outcome::none;
      if (!open(found.get(), base_, code)) return Outcome::raised;
      if (code == literal_ && !write(key.get(), words, k)) return Outcome::raised;
    }
    return Outcome::well;
  }

 private:
  // Adds a pair of a number, times a base and more, and extents.
  bool open(PyObject* pair, int64_t base, int64_t more) {
    if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2)
      return PyErr_BadArgument(), false;
    parts.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(pair, 0)) * base + more);
    return !PyErr_Occurred() && add(PyTuple_GET_ITEM(pair, 1), extents);
  }

  // Adds the words of a literal, which begin at a place: a number by itself is known.
  bool write(PyObject* own, const std::vector<int64_t>& words, size_t& k) {
    if (k < words.size()) {
      Ref key(Py_BuildValue("OL", own, static_cast<long long>(words[k])));
      if (!key) return false;
      PyObject* found = PyDict_GetItemWithError(table_, key.get());
      if (found) return k++, open(Ref::to(found).get(), 1, 0);
      if (PyErr_Occurred()) return false;
    }
    Ref made(PyObject_CallFunction(written_, "On", own, static_cast<Py_ssize_t>(k)));
    Py_ssize_t count;
    PyObject *more, *sizes;
    if (!made || !PyArg_ParseTuple(made.get(), "nOO", &count, &more, &sizes)) return false;
    k += static_cast<size_t>(count);
    return add(more, parts) && add(sizes, extents);
  }

  PyObject *table_, *numbered_, *written_;
  const int64_t base_, literal_;
};

// (key, (base, code of literals), table, numbered, written)
PyObject* family(PyObject*, PyObject* args) {
  PyObject *key, *table, *numbered, *written;
  long long base, code;
  if (!PyArg_ParseTuple(args, "O!(LL)O!OO", &PyBytes_Type, &key, &base, &code, &PyDict_Type,
                        &table, &numbered, &written))
    return nullptr;
  std::vector<int64_t> words(static_cast<size_t>(PyBytes_GET_SIZE(key)) / sizeof(int64_t));
  std::memcpy(words.data(), PyBytes_AS_STRING(key), words.size() * sizeof(int64_t));
  Family found(table, numbered, written, base, code);
  const Outcome outcome = found.take(words);
  if (outcome == Outcome::none) Py_RETURN_NONE;
  if (outcome == Outcome::raised) return nullptr;
  const auto size = static_cast<Py_ssize_t>(found.parts.size() * sizeof(int64_t));
  Ref parts(PyBytes_FromStringAndSize(reinterpret_cast<char*>(found.parts.data()), size));
  Ref extents(PyTuple_New(static_cast<Py_ssize_t>(found.extents.size())));
  if (!parts || !extents) return nullptr;
  for (size_t k = 0; k < found.extents.size(); k++) {
    PyObject* x = PyLong_FromLongLong(found.extents[k]);
    if (!x) return nullptr;
    PyTuple_SET_ITEM(extents.get(), static_cast<Py_ssize_t>(k), x);
  }
  return PyTuple_Pack(2, parts.get(), extents.get());
}

}  // namespace

PyMethodDef size_functions[] = {
    {"evaluate", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(evaluate)),
     METH_FASTCALL,
     "evaluate(rows, operands, wanted, objects, sizes): what is wanted, None where a "
     "guard does not hold."},
    {"bits_of", bits_of, METH_O, "bits_of(float): the integer that it passes as."},
    {"is_plain", is_plain, METH_O, "is_plain(float): 1 if machine code knows it, or 0."},
    {"filled", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(filled)),
     METH_FASTCALL,
     "filled(like, places, slots, values): a copy with the values of slots in places."},
    {"stacked", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(stacked)),
     METH_FASTCALL,
     "stacked(order, starts, under, first, last, chain, region, bytes, alignment): offsets, "
     "their height, and the largest live set."},
    {"family", family, METH_VARARGS,
     "family(key, codes, table, numbered, written): a key without extents, and these."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace treadle
