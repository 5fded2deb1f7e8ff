// What rows are found by: the cells of a graph (batch/grow.py, batch/members.py), and
// nodes that are equal (batch/equal.py).
#include <cstring>

#include "arrays.hpp"

namespace treadle {
namespace {

// A hash with one more word in it.
uint64_t mixed(uint64_t code, int64_t word) {
  uint64_t product = (code ^ static_cast<uint64_t>(word)) * 0x9B873593CC9E2D51u;
  return product ^ product >> 29;
}

// Numbers for things of one hash that are equal, in the order in which they come.
class Kinds {
 public:
  explicit Kinds(size_t things) {
    size_t slots = 2;
    while (slots < 2 * things) slots *= 2;
    slots_.assign(slots, {-1, 0});
  }
  // The first thing that is equal to a new one, which is kept if there is none.
  template <typename Equal>
  int64_t first(int64_t thing, uint64_t code, Equal equal) {
    size_t k = code & (slots_.size() - 1);
    while (slots_[k].thing >= 0) {
      if (slots_[k].code == code && equal(slots_[k].thing)) return slots_[k].thing;
      k = (k + 1) & (slots_.size() - 1);
    }
    slots_[k] = {thing, code};
    return thing;
  }

 private:
  struct Kept {
    int64_t thing;
    uint64_t code;
  };
  std::vector<Kept> slots_;
};

// Nodes in creation order: k reads operands[starts[k]] up to operands[starts[k + 1]].
struct Read {
  Given starts, operands;
  size_t count;

  Read(PyObject* starts, PyObject* operands, size_t count)
      : starts(starts), operands(operands), count(count) {}
  // Whether all that is read is there.
  bool is_sound() const {
    if (!starts || !operands) return false;
    bool sound = starts.size == count + 1 && starts[0] >= 0 &&
                 starts[count] <= static_cast<int64_t>(operands.size);
    for (size_t k = 0; sound && k < count; k++) sound = starts[k] <= starts[k + 1];
    for (size_t k = 0; sound && k < operands.size; k++)
      sound = operands[k] >= 0 && operands[k] < static_cast<int64_t>(count);
    if (!sound) PyErr_SetString(PyExc_ValueError, "nodes read what is not there");
    return sound;
  }
};

// -- cells -----------------------------------------------------------------------------

enum Role : int64_t { SHARED, LEAF, LONE, RESULT, MOVES, PART, PRODUCT };
constexpr int64_t ENDS = 8;    // added to a role: the node is not read in its own cell
constexpr int64_t NODES = 64;  // of a cell, at most,
constexpr size_t WAITS = 8;    // and cells that it waits for
constexpr int64_t NONE = -1;
constexpr int64_t UNREAD = -2;

// Some cells in order, of which it only matters that they are too many if they are.
struct Others {
  int64_t cells[WAITS + 2];
  size_t count = 0;

  void insert(int64_t cell) {
    size_t place = 0;
    while (place < count && cells[place] < cell) place++;
    if (count > WAITS + 1 || (place < count && cells[place] == cell)) return;
    for (size_t k = count; k > place; k--) cells[k] = cells[k - 1];
    cells[place] = cell;
    count++;
  }
};

struct Cell {
  int64_t began, size, products, level;
  bool computes, ends, open;
  size_t waiting;
  int64_t waits[WAITS];
  int64_t reader, into;  // the only other that reads it; what it has become part of

  bool waits_for(int64_t other) const {
    return std::find(waits, waits + waiting, other) != waits + waiting;
  }
};

class Growth {
 public:
  Growth(const Read& read, const Given& roles, int64_t* own)
      : read_(read), roles_(roles), own_(own) {}

  void grow() {
    for (size_t k = 0; k < read_.count; k++) place(k);
    note_readers();
    merge();
    for (size_t c = cells_.size(); c-- > 0;) {
      Cell& cell = cells_[c];
      if (cell.into >= 0)
        cell.began = cells_[static_cast<size_t>(cell.into)].began;
      else if (!cell.open || cell.size == 1)
        cell.began = NONE;
    }
    for (size_t k = 0; k < read_.count; k++)
      if (own_[k] >= 0) own_[k] = cell(own_[k]).began;
  }

 private:
  Cell& cell(int64_t number) { return cells_[static_cast<size_t>(number)]; }
  int64_t own(int64_t node) const { return own_[static_cast<size_t>(node)]; }
  int64_t role(int64_t node) const {
    return roles_[static_cast<size_t>(node)] & (ENDS - 1);
  }

  // Lets a node join the cell that it reads, or begin one.
  void place(size_t k) {
    const int64_t what = roles_[k] & (ENDS - 1), first = read_.starts[k];
    const bool ends = roles_[k] >= ENDS;
    if (what <= LEAF) {
      own_[k] = NONE;
      return;
    }
    if (what == RESULT && own(read_.operands[static_cast<size_t>(first)]) >= 0) {
      own_[k] = own(read_.operands[static_cast<size_t>(first)]);
      cell(own_[k]).size++;
      cell(own_[k]).ends |= ends;
      return;
    }
    int64_t best = NONE, level = 0;
    Others waits;
    for (int64_t j = first; j < read_.starts[k + 1]; j++) {
      const int64_t other = own(read_.operands[static_cast<size_t>(j)]);
      if (other < 0) continue;
      best = std::max(best, other);
      level = std::max(level, cell(other).level);
      waits.insert(other);
    }
    const int64_t product = what == PRODUCT;
    if (joins(best, what, waits, k)) {
      Cell& c = cell(best);
      c.size++;
      c.products += product;
      c.level += product;
      c.computes |= what == PART;
      c.ends |= ends;
      own_[k] = best;
      return;
    }
    Cell made{};
    made.began = static_cast<int64_t>(k);
    made.size = 1;
    made.products = product;
    made.level = level + product;
    made.computes = what == PART;
    made.ends = ends;
    made.open = opens(best, what, waits.count);
    made.waiting = waits.count <= WAITS ? waits.count : 0;
    std::copy(waits.cells, waits.cells + made.waiting, made.waits);
    made.reader = UNREAD;
    made.into = NONE;
    own_[k] = static_cast<int64_t>(cells_.size());
    cells_.push_back(made);
  }

  // Whether a cell that a node begins may grow: it goes on from where others end.
  bool opens(int64_t best, int64_t what, size_t count) {
    if (count > WAITS || what < MOVES) return false;
    if (what == PRODUCT || count > 1) return true;
    return count == 1 && (cell(best).open || role(cell(best).began) == LONE);
  }

  // Whether a node can be part of a cell: that waits for nothing more then, and for
  // nothing that was made after it began.
  bool joins(int64_t number, int64_t what, const Others& waits, size_t k) {
    if (number < 0 || what < MOVES || !cell(number).open || waits.count > WAITS + 1)
      return false;
    const Cell& c = cell(number);
    if (c.size >= NODES || (what == PRODUCT && (c.products > 0 || c.computes)))
      return false;
    for (size_t j = 0; j < waits.count; j++)
      if (waits.cells[j] != number && !awaits(c, waits.cells[j])) return false;
    for (int64_t j = read_.starts[k]; j < read_.starts[k + 1]; j++) {
      const int64_t x = read_.operands[static_cast<size_t>(j)];
      if (own(x) == number && roles_[static_cast<size_t>(x)] >= ENDS) return false;
      if (own(x) >= 0 && own(x) != number && x >= c.began) return false;
    }
    return true;
  }

  // Whether a cell waits for another one, or for one that does.
  bool awaits(const Cell& c, int64_t other) {
    if (c.waits_for(other)) return true;
    for (size_t k = 0; k < c.waiting; k++)
      if (cell(c.waits[k]).waits_for(other)) return true;
    return false;
  }

  void note_readers() {
    for (size_t k = 0; k < read_.count; k++) {
      const int64_t mine = own_[k];
      if (mine < 0) continue;
      for (int64_t j = read_.starts[k]; j < read_.starts[k + 1]; j++) {
        const int64_t other = own(read_.operands[static_cast<size_t>(j)]);
        if (other < 0 || other == mine) continue;
        int64_t& reader = cell(other).reader;
        reader = reader == UNREAD || reader == mine ? mine : NONE;
      }
    }
  }

  // Whether a cell may be part of another one, which alone reads it.
  bool fits(const Cell& x, const Cell& c, size_t number) const {
    return x.open && !x.ends && x.reader == static_cast<int64_t>(number) &&
           x.products + c.products <= 1 && x.size + c.size <= NODES;
  }

  // Notes which cells make a total: without a product, they go on from one that is like
  // them, at their level, for which a cell with a product, that fits, does not wait. That
  // is no part of them, or one such cell would wait for the other.
  std::vector<bool> totals() {
    std::vector<bool> found(cells_.size(), false), multiplies(cells_.size(), false);
    for (size_t number = 0; number < cells_.size(); number++) {
      const Cell& c = cells_[number];
      multiplies[number] = c.products > 0;
      for (size_t k = 0; c.open && k < c.waiting; k++) {
        const auto added = static_cast<size_t>(c.waits[k]);
        if (!multiplies[added] || !fits(cells_[added], c, number)) continue;
        multiplies[number] = true;
        for (size_t j = 0; !c.products && j < c.waiting; j++) {
          const Cell& y = cell(c.waits[j]);
          const bool like = !y.products && y.level == c.level && y.size == c.size &&
                            y.waiting == c.waiting && j != k;
          if (like && !awaits(cells_[added], c.waits[j]))
            found[number] = found[static_cast<size_t>(c.waits[j])] = true;
        }
      }
    }
    return found;
  }

  // Lets a cell that only one other reads be part of that, the deepest first.
  void merge() {
    const std::vector<bool> total = totals();
    for (size_t number = 0; number < cells_.size(); number++) {
      Cell& c = cells_[number];
      if (!c.open) continue;
      int64_t best = NONE, level = NONE;
      for (size_t k = 0; k < c.waiting; k++) {
        const Cell& x = cell(c.waits[k]);
        if (fits(x, c, number) && x.level >= level && !(total[number] && x.products)) {
          best = c.waits[k];
          level = x.level;
        }
      }
      if (best < 0) continue;
      cell(best).into = static_cast<int64_t>(number);
      c.products += cell(best).products;
      c.size += cell(best).size;
    }
  }

  const Read& read_;
  const Given& roles_;
  int64_t* own_;
  std::vector<Cell> cells_;
};

PyObject* grown(PyObject*, PyObject* args) {
  PyObject *starts, *operands, *roles;
  if (!PyArg_ParseTuple(args, "OOO", &starts, &operands, &roles)) return nullptr;
  Given what(roles);
  if (!what) return nullptr;
  Read read(starts, operands, what.size);
  Numbers own(what.size);
  if (!read.is_sound() || !own) return nullptr;
  Growth(read, what, own.data).grow();
  return own.release();
}

// -- members of cells, and their kinds -------------------------------------------------

enum Operand : int64_t { INSIDE, ROW, SHARES };

// What batch/members.py calls Members, and how it is found.
struct Members {
  const Read& read;
  Given shares, codes, types, references, own;
  std::vector<int64_t> began, starts, nodes, opens, rows, kinds, places;

  Members(const Read& read, PyObject* shares, PyObject* codes, PyObject* types,
          PyObject* references, PyObject* own)
      : read(read), shares(shares), codes(codes), types(types), references(references),
        own(own) {}

  bool is_sound() const {
    for (const Given* x : {&shares, &codes, &types, &references, &own}) {
      if (!*x) return false;
      if (x->size != read.count) return PyErr_BadArgument(), false;
    }
    for (size_t k = 0; k < own.size; k++)
      if (own[k] < NONE || own[k] >= static_cast<int64_t>(own.size))
        return PyErr_BadArgument(), false;
    return true;
  }

  // Puts the nodes into their cells, in the order of the nodes that these go by.
  void gather() {
    std::vector<int64_t> sizes(read.count), numbers(read.count), fill;
    for (size_t k = 0; k < read.count; k++)
      if (own[k] >= 0) sizes[static_cast<size_t>(own[k])]++;
    int64_t first = 0;
    for (size_t k = 0; k < read.count; k++) {
      if (!sizes[k]) continue;
      numbers[k] = static_cast<int64_t>(began.size());
      began.push_back(static_cast<int64_t>(k));
      starts.push_back(first);
      fill.push_back(first);
      first += sizes[k];
    }
    starts.push_back(first);
    nodes.resize(static_cast<size_t>(first));
    places.resize(read.count);
    for (size_t k = 0; k < read.count; k++) {
      if (own[k] < 0) continue;
      const auto cell = static_cast<size_t>(numbers[static_cast<size_t>(own[k])]);
      places[k] = fill[cell] - starts[cell];
      nodes[static_cast<size_t>(fill[cell]++)] = static_cast<int64_t>(k);
    }
  }

  // Marks what others read than a node's own cell, or hold.
  void look(npy_bool* seen) const {
    std::vector<int64_t> times(read.count);
    std::fill(seen, seen + read.count, npy_bool{0});
    for (size_t k = 0; k < read.count; k++)
      for (int64_t j = read.starts[k]; j < read.starts[k + 1]; j++) {
        const auto x = static_cast<size_t>(read.operands[static_cast<size_t>(j)]);
        times[x]++;
        if (own[x] != own[k]) seen[x] = 1;
      }
    for (size_t k = 0; k < read.count; k++)
      if (!times[k] || references[k] > times[k]) seen[k] = 1;
  }

  // Finds the kind of each cell, and the rows that it reads. Kinds are equal word for
  // word.
  void tell() {
    Kinds known(began.size() + 1);
    std::vector<int64_t> words, ends{0};
    opens.push_back(0);
    for (size_t cell = 0; cell < began.size(); cell++) {
      const auto first = static_cast<size_t>(ends.back());
      words.resize(first);
      write_down(cell, words);
      uint64_t code = 0;
      for (size_t k = first; k < words.size(); k++) code = mixed(code, words[k]);
      const size_t length = words.size() - first;
      const auto fresh = static_cast<int64_t>(ends.size() - 1);
      const int64_t kind = known.first(fresh, code, [&](int64_t other) {
        const auto k = static_cast<size_t>(other);
        return static_cast<size_t>(ends[k + 1] - ends[k]) == length &&
               std::equal(words.begin() + ends[k], words.begin() + ends[k + 1],
                          words.begin() + static_cast<int64_t>(first));
      });
      if (kind == fresh) ends.push_back(static_cast<int64_t>(words.size()));
      kinds.push_back(kind);
      opens.push_back(static_cast<int64_t>(rows.size()));
    }
  }

 private:
  // Writes down what a cell does, and the rows that it reads.
  void write_down(size_t cell, std::vector<int64_t>& words) {
    words.push_back(places[static_cast<size_t>(began[cell])]);
    for (int64_t i = starts[cell]; i < starts[cell + 1]; i++) {
      const auto k = static_cast<size_t>(nodes[static_cast<size_t>(i)]);
      words.insert(words.end(), {codes[k], read.starts[k + 1] - read.starts[k]});
      for (int64_t j = read.starts[k]; j < read.starts[k + 1]; j++) {
        const auto x = static_cast<size_t>(read.operands[static_cast<size_t>(j)]);
        if (shares[x] >= 0) {
          words.insert(words.end(), {SHARES, shares[x], types[x]});
        } else if (own[x] == began[cell]) {
          words.insert(words.end(), {INSIDE, places[x], types[x]});
        } else {
          words.insert(words.end(), {ROW, 0, types[x]});
          rows.push_back(static_cast<int64_t>(x));
        }
      }
    }
  }
};

PyObject* members(PyObject*, PyObject* args) {
  PyObject *starts, *operands, *shares, *codes, *types, *references, *own;
  if (!PyArg_ParseTuple(args, "OOOOOOO", &starts, &operands, &shares, &codes, &types,
                        &references, &own) ||
      !PyArray_Check(own))
    return PyErr_Occurred() ? nullptr : (PyErr_BadArgument(), nullptr);
  Read read(starts, operands, static_cast<size_t>(PyArray_SIZE(array_of(own))));
  Members m(read, shares, codes, types, references, own);
  treadle::Marks seen(read.count);
  if (!read.is_sound() || !m.is_sound() || !seen) return nullptr;
  m.gather();
  m.look(seen.data);
  m.tell();
  return Py_BuildValue("NNNNNNN", Numbers(m.began).release(), Numbers(m.starts).release(),
                       Numbers(m.nodes).release(), Numbers(m.opens).release(),
                       Numbers(m.rows).release(), Numbers(m.kinds).release(),
                       seen.release());
}

// -- equal nodes -----------------------------------------------------------------------

PyObject* equals(PyObject*, PyObject* args) {
  PyObject *kinds_, *starts_, *sizes_, *words_;
  long long nodes;  // kinds from this on have words that are nodes
  if (!PyArg_ParseTuple(args, "OOOOL", &kinds_, &starts_, &sizes_, &words_, &nodes))
    return nullptr;
  Given kinds(kinds_), starts(starts_), sizes(sizes_), words(words_);
  if (!kinds || !starts || !sizes || !words) return nullptr;
  const size_t count = kinds.size;
  bool sound = starts.size == count && sizes.size == count;
  for (size_t k = 0; sound && k < count; k++)
    sound = starts[k] >= 0 && sizes[k] >= 0 &&
            starts[k] + sizes[k] <= static_cast<int64_t>(words.size);
  if (!sound) return PyErr_BadArgument(), nullptr;
  Numbers one(count);
  if (!one) return nullptr;
  std::vector<int64_t> own(words.data, words.data + words.size);
  Kinds known(count + 1);
  for (size_t k = 0; k < count; k++) {
    one.data[k] = static_cast<int64_t>(k);
    if (kinds[k] < 0) continue;
    uint64_t code = mixed(0, kinds[k]);
    int64_t* mine = own.data() + starts[k];
    for (int64_t j = 0; j < sizes[k]; j++) {
      // What is read is what is equal to it, which came before.
      if (kinds[k] >= nodes && mine[j] >= 0 && mine[j] < static_cast<int64_t>(k))
        mine[j] = one.data[mine[j]];
      code = mixed(code, mine[j]);
    }
    one.data[k] = known.first(static_cast<int64_t>(k), code, [&](int64_t other) {
      const auto x = static_cast<size_t>(other);
      return kinds[x] == kinds[k] && sizes[x] == sizes[k] &&
             std::equal(mine, mine + sizes[k], own.data() + starts[x]);
    });
  }
  return one.release();
}

// -- rows of numbers that are equal -------------------------------------------------------

PyObject* split(PyObject*, PyObject* keys) {
  if (!PyArray_Check(keys) || PyArray_TYPE(array_of(keys)) != NPY_INT64 ||
      PyArray_NDIM(array_of(keys)) != 2 || !PyArray_IS_C_CONTIGUOUS(array_of(keys)))
    return PyErr_BadArgument(), nullptr;
  const auto* words = static_cast<const int64_t*>(PyArray_DATA(array_of(keys)));
  const npy_intp count = PyArray_DIM(array_of(keys), 0);
  const npy_intp width = PyArray_DIM(array_of(keys), 1);
  std::vector<int64_t> order(static_cast<size_t>(count));
  for (size_t k = 0; k < order.size(); k++) order[k] = static_cast<int64_t>(k);
  const auto compare = [&](int64_t a, int64_t b) {
    const int64_t *x = words + a * width, *y = words + b * width;
    for (npy_intp j = 0; j < width; j++)
      if (x[j] != y[j]) return x[j] < y[j] ? -1 : 1;
    return 0;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
  Ref lists(PyList_New(0));
  for (size_t first = 0, last = 0; lists && first < order.size(); first = last) {
    while (last < order.size() && !compare(order[first], order[last])) last++;
    Numbers list(last - first);
    if (!list || PyList_Append(lists.get(), list.object.get()) < 0) return nullptr;
    std::copy(order.begin() + static_cast<int64_t>(first),
              order.begin() + static_cast<int64_t>(last), list.data);
  }
  return lists.release();
}

// -- what loops may read ---------------------------------------------------------------

PyObject* read_often(PyObject*, PyObject* args) {
  PyObject *operands_, *sizes_, *waiting_;
  long long least, apart;
  if (!PyArg_ParseTuple(args, "OOO!LL", &operands_, &sizes_, &PyArray_Type, &waiting_,
                        &least, &apart))
    return nullptr;
  Given operands(operands_), sizes(sizes_);
  if (!operands || !sizes) return nullptr;
  PyArrayObject* waiting = array_of(waiting_);
  if (PyArray_TYPE(waiting) != NPY_BOOL || !PyArray_IS_C_CONTIGUOUS(waiting) ||
      PyArray_SIZE(waiting) != static_cast<npy_intp>(sizes.size))
    return PyErr_BadArgument(), nullptr;
  struct Readers {
    int64_t all = 0, wide = 0, first = 0, last = 0;  // wide: they read others, too
  };
  std::vector<Readers> readers(sizes.size);
  size_t edge = 0;
  for (size_t k = 0; k < sizes.size; k++)
    for (int64_t j = 0; j < sizes[k]; j++, edge++) {
      if (edge >= operands.size || operands[edge] < 0 ||
          operands[edge] >= static_cast<int64_t>(sizes.size))
        return PyErr_BadArgument(), nullptr;
      Readers& x = readers[static_cast<size_t>(operands[edge])];
      if (!x.all++) x.first = static_cast<int64_t>(k);
      x.last = static_cast<int64_t>(k);
      x.wide += sizes[k] > 1;
    }
  const auto* marks = static_cast<const npy_bool*>(PyArray_DATA(waiting));
  std::vector<int64_t> often;
  for (size_t k = 0; k < sizes.size; k++) {
    const Readers& x = readers[k];
    if (marks[k] && x.all >= least && (x.wide >= least || x.last - x.first >= apart))
      often.push_back(static_cast<int64_t>(k));
  }
  return Numbers(often).release();
}

}  // namespace

PyMethodDef row_functions[] = {
    {"grown", grown, METH_VARARGS,
     "grown(starts, operands, roles): the cell of each node, as batch/grow.py."},
    {"members", members, METH_VARARGS,
     "members(starts, operands, shares, codes, types, references, own): the fields of "
     "Members in turn."},
    {"equals", equals, METH_VARARGS,
     "equals(kinds, starts, sizes, words, nodes): of each node the first equal one."},
    {"split", split, METH_O, "split(keys): as batch/columns.py."},
    {"read_often", read_often, METH_VARARGS,
     "read_often(operands, sizes, waiting, least, apart): as batch/repeats.py."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace treadle
