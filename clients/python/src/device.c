// Memory of a device: objects with __cuda_array_interface__ (numba's documentation, version 3), or DLPack tensors.
#include <stdlib.h>

#include "native.h"

enum { legacy_stream = 1 };  // the default stream: CUDA's number, which Verbena takes for HIP's, too

static bool refuse(const char* why) {
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_BufferError, why);
  return false;
}

// The entry of a dictionary; NULL if it is missing or None, without an exception.
static PyObject* entry(PyObject* from, const char* name) {
  PyObject* found = PyDict_GetItemString(from, name);
  return found == Py_None ? NULL : found;
}

static bool number_at(PyObject* tuple, Py_ssize_t index, uint64_t* into) {
  PyObject* value = PySequence_GetItem(tuple, index);
  if (value == NULL) return false;
  *into = PyLong_AsUnsignedLongLong(value);
  Py_DECREF(value);
  return !PyErr_Occurred();
}

// "<f4": 4 bytes.
static bool item_size(PyObject* typestr, uint64_t* size) {
  const char* text = typestr == NULL ? NULL : text_of(typestr, "typestr");
  char* end = NULL;
  *size = text != NULL && strlen(text) > 2 ? strtoull(text + 2, &end, 10) : 0;
  return (*size > 0 && *end == '\0') || refuse("__cuda_array_interface__: typestr");
}

static bool contiguous_size(PyObject* shape, PyObject* strides, uint64_t item, uint64_t* bytes) {
  if (shape == NULL || !PyTuple_Check(shape) || (strides != NULL && !PyTuple_Check(strides))) {
    return refuse("__cuda_array_interface__: shape or strides");
  }
  const Py_ssize_t dimensions = PyTuple_Size(shape);
  if (strides != NULL && PyTuple_Size(strides) != dimensions) return refuse("__cuda_array_interface__: strides");
  bool gaps = false;
  *bytes = item;
  for (Py_ssize_t i = dimensions - 1; i >= 0; --i) {
    uint64_t extent = 0;
    if (!number_at(shape, i, &extent)) return false;
    const long long stride = strides == NULL ? 0 : PyLong_AsLongLong(PyTuple_GetItem(strides, i));
    if (PyErr_Occurred()) return false;
    gaps = gaps || (strides != NULL && extent > 1 && (uint64_t)stride != *bytes);
    if (__builtin_mul_overflow(*bytes, extent, bytes)) return refuse("the array has too many bytes");
  }
  return *bytes == 0 || !gaps || refuse("the array on the device is not contiguous");
}

// Makes the default stream wait for the stream on which the object's producer works now.
static bool order_by_dlpack(PyObject* object, int kind) {
  if (!PyObject_HasAttrString(object, "__dlpack__")) return true;
  PyObject* capsule = dlpack_after_producer(object, kind);
  Py_XDECREF(capsule);
  return capsule != NULL;
}

static bool read_stream(PyObject* interface, PyObject* object, verbena_device_memory* memory) {
  PyObject* version = entry(interface, "version");
  const long number = version == NULL ? 0 : PyLong_AsLong(version);
  if (PyErr_Occurred()) return false;
  if (number < 3) {
    memory->has_stream = 1;
    memory->stream = legacy_stream;
    return order_by_dlpack(object, memory->kind);
  }
  PyObject* stream = entry(interface, "stream");
  if (stream == NULL) return true;  // its producer has waited
  memory->has_stream = 1;
  memory->stream = PyLong_AsUnsignedLongLong(stream);
  if (PyErr_Occurred()) return false;
  return memory->stream != 0 || refuse("__cuda_array_interface__: stream 0 is ambiguous");
}

static bool read_interface(PyObject* interface, PyObject* object, verbena_device_memory* memory) {
  if (!PyDict_Check(interface)) return refuse("__cuda_array_interface__ is no dict");
  if (entry(interface, "mask") != NULL) return refuse("an array with a mask is not served");
  PyObject* data = entry(interface, "data");
  if (data == NULL || !PyTuple_Check(data) || PyTuple_Size(data) != 2) return refuse("__cuda_array_interface__: data");
  uint64_t item = 0;
  memory->read_only = PyObject_IsTrue(PyTuple_GetItem(data, 1)) == 1;
  return number_at(data, 0, &memory->address) && item_size(entry(interface, "typestr"), &item) &&
         contiguous_size(entry(interface, "shape"), entry(interface, "strides"), item, &memory->size) &&
         read_stream(interface, object, memory);
}

bool on_device(PyObject* object) {
  if (PyObject_CheckBuffer(object)) return false;
  return PyObject_HasAttrString(object, "__cuda_array_interface__") || dlpack_kind(object) != VERBENA_MEMORY_HOST;
}

static bool describe_device(PyObject* object, verbena_device_memory* memory) {
  memset(memory, 0, sizeof *memory);
  memory->struct_size = sizeof *memory;
  // The interface does not say whose device it is; torch and cupy say it by DLPack, also where they are built for ROCm.
  memory->kind = dlpack_kind(object) == VERBENA_MEMORY_ROCM ? VERBENA_MEMORY_ROCM : VERBENA_MEMORY_CUDA;
  memory->any_device = 1;
  if (!PyObject_HasAttrString(object, "__cuda_array_interface__")) {
    memory->has_stream = 1;
    memory->stream = legacy_stream;
    return describe_dlpack(object, memory);
  }
  PyObject* interface = PyObject_GetAttrString(object, "__cuda_array_interface__");
  const bool ok = interface != NULL && read_interface(interface, object, memory);
  Py_XDECREF(interface);
  return ok;
}

bool open_window(Memory* memory, verbena_client* used, PyObject* object, bool writable) {
  if (!on_device(object)) {
    const bool is_buffer = PyObject_TypeCheck(object, buffer_type) && ((Buffer*)object)->device != NULL;
    if (!(is_buffer ? open_device_buffer(memory, (Buffer*)object, writable) : open_memory(memory, object, writable))) return false;
    memory->window = memory->buffer == NULL ? NULL : memory->buffer->buffer;
    return true;
  }
  memset(memory, 0, sizeof *memory);
  verbena_device_memory given;
  if (!describe_device(object, &given)) return false;
  if (writable && given.read_only) return refuse("the array on the device is read-only");
  Py_INCREF(object);
  memory->capsule = object;
  memory->size = (size_t)given.size;
  if (given.size == 0) return true;
  int code = 0;
  Py_BEGIN_ALLOW_THREADS
  code = verbena_register_device(used, &given, &memory->own_window);
  Py_END_ALLOW_THREADS
  if (code == VERBENA_OK) {
    memory->window = memory->own_window;
    return true;
  }
  raise_last(code);
  close_memory(memory);
  return false;
}

Buffer* register_device(Client* client, verbena_client* used, PyObject* object) {
  verbena_device_memory given;
  if (!describe_device(object, &given)) return NULL;
  Buffer* buffer = (Buffer*)PyType_GenericAlloc(buffer_type, 0);
  if (buffer == NULL) return NULL;
  int code = 0;
  Py_BEGIN_ALLOW_THREADS
  code = verbena_register_device(used, &given, &buffer->buffer);
  Py_END_ALLOW_THREADS
  if (code != VERBENA_OK) {
    Py_DECREF((PyObject*)buffer);
    return (Buffer*)raise_last(code);
  }
  Py_INCREF((PyObject*)client);
  Py_INCREF(object);
  buffer->owner = client;
  buffer->device = object;
  buffer->device_read_only = given.read_only != 0;
  buffer->registered = true;
  buffer->size = (size_t)given.size;
  return buffer;
}
