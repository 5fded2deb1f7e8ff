// NumPy's arrays of numbers and marks, read and made.
#pragma once

#include "objects.hpp"

#define PY_ARRAY_UNIQUE_SYMBOL treadle_core_arrays
#ifndef TREADLE_IMPORTS_ARRAYS
#define NO_IMPORT_ARRAY
#endif
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

#include <algorithm>
#include <vector>

namespace treadle {

inline PyArrayObject* array_of(PyObject* x) { return reinterpret_cast<PyArrayObject*>(x); }

inline bool is_array(PyObject* x) { return Py_TYPE(x) == &PyArray_Type; }

// Whether one alone refers to an array, and to each whose memory it is part of.
inline bool is_alone(PyObject* array) {
  for (PyObject* under = array; under && (under == array || is_array(under));
       under = PyArray_BASE(array_of(under)))
    if (!is_array(under) || Py_REFCNT(under) != 1) return false;
  return true;
}

// A new array of one axis; without an object where Python has raised something.
template <typename T, int type>
struct Made {
  Ref object;
  T* data = nullptr;

  explicit Made(size_t count) {
    npy_intp extent = static_cast<npy_intp>(count);
    object = Ref(PyArray_SimpleNew(1, &extent, type));
    if (object) data = static_cast<T*>(PyArray_DATA(array_of(object.get())));
  }
  explicit Made(const std::vector<T>& numbers) : Made(numbers.size()) {
    if (data) std::copy(numbers.begin(), numbers.end(), data);
  }
  explicit operator bool() const { return data != nullptr; }
  PyObject* release() { return object.release(); }
};
using Numbers = Made<int64_t, NPY_INT64>;
using Marks = Made<npy_bool, NPY_BOOL>;

// An array of numbers that was given; `data` is null, and something raised, if it is
// none.
struct Given {
  int64_t* data = nullptr;
  size_t size = 0;

  explicit Given(PyObject* x) {
    if (!PyArray_Check(x) || PyArray_TYPE(array_of(x)) != NPY_INT64 ||
        PyArray_NDIM(array_of(x)) != 1 || !PyArray_IS_C_CONTIGUOUS(array_of(x))) {
      PyErr_SetString(PyExc_TypeError, "int64 numbers one after the other are expected");
      return;
    }
    data = static_cast<int64_t*>(PyArray_DATA(array_of(x)));
    size = static_cast<size_t>(PyArray_SIZE(array_of(x)));
  }
  explicit operator bool() const { return data != nullptr; }
  int64_t& operator[](size_t k) const { return data[k]; }
};

}  // namespace treadle
