// Foreign memory: the buffer protocol and DLPack, both ways.
#include <string.h>

#include "native.h"

// https://dmlc.github.io/dlpack/latest/c_api.html, version 1, and 0 of producers that have no other.
typedef struct { int32_t type, id; } DLDevice;
typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(struct DLManagedTensor*);
} DLManagedTensor;
typedef struct DLManagedTensorVersioned {
  struct { uint32_t major, minor; } version;
  void* context;
  void (*deleter)(struct DLManagedTensorVersioned*);
  uint64_t flags;
  DLTensor tensor;
} DLManagedTensorVersioned;
enum { dl_version = 1, dl_read_only = 1, dl_copied = 2 };
enum { dl_cpu = 1, dl_cuda = 2, dl_cuda_host = 3, dl_rocm = 10, dl_rocm_host = 11, dl_uint = 1 };

// A CPU reads and writes it: page-locked memory, too.
static bool in_host_memory(long type) { return type == dl_cpu || type == dl_cuda_host || type == dl_rocm_host; }

static bool contiguous(const DLTensor* tensor, size_t* bytes) {
  const size_t item = ((size_t)tensor->dtype.bits * tensor->dtype.lanes + 7) / 8;
  uint64_t count = 1;
  for (int32_t i = tensor->ndim - 1; i >= 0; --i) {
    if (tensor->shape[i] < 0) return false;
    if (tensor->strides != NULL && tensor->shape[i] > 1 && (uint64_t)tensor->strides[i] != count) return false;
    if (__builtin_mul_overflow(count, (uint64_t)tensor->shape[i], &count)) return false;
  }
  return !__builtin_mul_overflow(count, item, bytes);
}

// A capsule of version 1 if the producer knows that argument: `keywords`, of __dlpack__, gets it, and is given up.
static PyObject* call_dlpack(PyObject* object, PyObject* keywords) {
  PyObject* method = PyObject_GetAttrString(object, "__dlpack__");
  PyObject* none = PyTuple_New(0);
  PyObject* version = Py_BuildValue("(ii)", dl_version, 0);
  PyObject* capsule = NULL;
  if (method != NULL && none != NULL && version != NULL && keywords != NULL &&
      PyDict_SetItemString(keywords, "max_version", version) == 0) {
    capsule = PyObject_Call(method, none, keywords);
    if (capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
      PyErr_Clear();
      if (PyDict_DelItemString(keywords, "max_version") == 0) capsule = PyObject_Call(method, none, keywords);
    }
  }
  Py_XDECREF(method);
  Py_XDECREF(none);
  Py_XDECREF(version);
  Py_XDECREF(keywords);
  return capsule;
}

// NULL with an exception. Version 0 has no flags: then none is set.
static const DLTensor* tensor_in(PyObject* capsule, uint64_t* flags) {
  *flags = 0;
  if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    const DLManagedTensor* managed = PyCapsule_GetPointer(capsule, "dltensor");
    return managed == NULL ? NULL : &managed->tensor;
  }
  const DLManagedTensorVersioned* managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
  if (managed == NULL) return NULL;
  if (managed->version.major != dl_version) {
    PyErr_SetString(PyExc_BufferError, "a DLPack tensor of another version than 0 and 1");
    return NULL;
  }
  *flags = managed->flags;
  return &managed->tensor;
}

int dlpack_kind(PyObject* object) {
  if (!PyObject_HasAttrString(object, "__dlpack_device__")) return VERBENA_MEMORY_HOST;
  PyObject* device = PyObject_CallMethod(object, "__dlpack_device__", NULL);
  const long type = device != NULL && PyTuple_Check(device) ? PyLong_AsLong(PyTuple_GetItem(device, 0)) : -1;
  Py_XDECREF(device);
  PyErr_Clear();
  return type == dl_cuda ? VERBENA_MEMORY_CUDA : type == dl_rocm ? VERBENA_MEMORY_ROCM : VERBENA_MEMORY_HOST;
}

PyObject* dlpack_after_producer(PyObject* object, int kind) {
  // The default stream.
  return call_dlpack(object, Py_BuildValue("{s:i}", "stream", kind == VERBENA_MEMORY_ROCM ? 0 : 1));
}

bool describe_dlpack(PyObject* object, verbena_device_memory* memory) {
  PyObject* capsule = dlpack_after_producer(object, memory->kind);
  if (capsule == NULL) return false;
  size_t size = 0;
  uint64_t flags = 0;
  const int32_t type = memory->kind == VERBENA_MEMORY_ROCM ? dl_rocm : dl_cuda;
  const DLTensor* tensor = tensor_in(capsule, &flags);
  const bool ok = tensor != NULL && (flags & dl_copied) == 0 && tensor->device.type == type && contiguous(tensor, &size);
  if (ok) {
    memory->address = (uint64_t)(uintptr_t)tensor->data + tensor->byte_offset;
    memory->size = size;
    memory->any_device = 0;
    memory->device = tensor->device.id;
    memory->read_only = (flags & dl_read_only) != 0;
  } else if (!PyErr_Occurred()) {
    PyErr_SetString(PyExc_BufferError, (flags & dl_copied) != 0 ? "DLPack gives a copy of the tensor on the device"
                                                                : "the tensor on the device is not contiguous");
  }
  Py_DECREF(capsule);  // the object itself keeps the memory
  return ok;
}

static bool open_dlpack(Memory* memory, PyObject* object, bool writable) {
  PyObject* device = PyObject_CallMethod(object, "__dlpack_device__", NULL);
  if (device == NULL) return false;
  const long kind = PyTuple_Check(device) ? PyLong_AsLong(PyTuple_GetItem(device, 0)) : -1;
  Py_DECREF(device);
  if (!in_host_memory(kind)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_BufferError, "the tensor is not in host memory: only that is served");
    return false;
  }
  memory->capsule = call_dlpack(object, PyDict_New());
  if (memory->capsule == NULL) return false;
  uint64_t flags = 0;
  const DLTensor* tensor = tensor_in(memory->capsule, &flags);
  if (tensor == NULL) return false;
  if (!in_host_memory(tensor->device.type) || !contiguous(tensor, &memory->size)) {
    PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous in host memory");
    return false;
  }
  if (writable && (flags & (dl_read_only | dl_copied)) != 0) {
    PyErr_SetString(PyExc_BufferError, (flags & dl_copied) != 0 ? "DLPack gives a copy of the tensor" : "the tensor is read-only");
    return false;
  }
  memory->data = (char*)tensor->data + tensor->byte_offset;
  return true;  // the capsule's own destructor frees the tensor, since it was not renamed
}

bool may_be_filled(const Buffer* buffer) {
  if (!buffer->device_read_only && !(buffer->registered && buffer->device == NULL && buffer->view.readonly)) return true;
  PyErr_SetString(PyExc_BufferError, "the registered memory is read-only");
  return false;
}

bool open_device_buffer(Memory* memory, Buffer* buffer, bool writable) {
  memset(memory, 0, sizeof *memory);
  if (buffer->buffer == NULL) {
    PyErr_SetString(PyExc_ValueError, "the buffer was released");
    return false;
  }
  if (writable && !may_be_filled(buffer)) return false;
  Py_INCREF((PyObject*)buffer);
  ++buffer->exports;
  memory->buffer = buffer;
  memory->size = buffer->size;
  return true;
}

bool open_memory(Memory* memory, PyObject* object, bool writable) {
  memset(memory, 0, sizeof *memory);
  if (PyObject_TypeCheck(object, buffer_type)) {
    Buffer* buffer = (Buffer*)object;
    if (buffer->device != NULL) {
      PyErr_SetString(PyExc_BufferError, "memory of a device is not served here");
      return false;
    }
    if (buffer->buffer == NULL) {
      PyErr_SetString(PyExc_ValueError, "the buffer was released");
      return false;
    }
    if (writable && !may_be_filled(buffer)) return false;
    Py_INCREF((PyObject*)buffer);
    ++buffer->exports;
    memory->buffer = buffer;
    memory->data = verbena_buffer_data(buffer->buffer);
    memory->size = buffer->size;
    return true;
  }
  if (!PyObject_CheckBuffer(object) && PyObject_HasAttrString(object, "__dlpack__")) {
    if (open_dlpack(memory, object, writable)) return true;
    close_memory(memory);
    return false;
  }
  if (PyObject_GetBuffer(object, &memory->view, writable ? PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS : PyBUF_C_CONTIGUOUS) < 0) {
    return false;
  }
  memory->has_view = true;
  memory->data = memory->view.buf;
  memory->size = (size_t)memory->view.len;
  return true;
}

void close_memory(Memory* memory) {
  if (memory->buffer != NULL) {
    --memory->buffer->exports;
    Py_DECREF((PyObject*)memory->buffer);
  }
  if (memory->has_view) PyBuffer_Release(&memory->view);
  Py_XDECREF(memory->capsule);
  verbena_buffer_free(memory->own_window);
  memset(memory, 0, sizeof *memory);
}

static void free_tensor(DLManagedTensor* managed) {
  PyGILState_STATE state = PyGILState_Ensure();
  Buffer* buffer = managed->context;
  --buffer->exports;
  Py_DECREF((PyObject*)buffer);
  PyMem_Free(managed);
  PyGILState_Release(state);
}

static void free_capsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;  // a consumer took it over
  DLManagedTensor* managed = PyCapsule_GetPointer(capsule, "dltensor");
  managed->deleter(managed);
}

// The buffer's bytes as a tensor of uint8.
PyObject* buffer_dlpack(PyObject* self, PyObject* arguments, PyObject* keywords) {
  (void)arguments, (void)keywords;
  Buffer* buffer = (Buffer*)self;
  if (buffer->buffer == NULL || buffer->device != NULL) {
    PyErr_SetString(PyExc_ValueError, buffer->buffer == NULL ? "the buffer was released" : "use the array that was registered");
    return NULL;
  }
  if (buffer->registered && buffer->view.readonly) {
    PyErr_SetString(PyExc_BufferError, "DLPack has no read-only memory");
    return NULL;
  }
  struct { DLManagedTensor managed; int64_t shape, stride; }* made = PyMem_Calloc(1, sizeof *made);
  if (made == NULL) return PyErr_NoMemory();
  made->shape = (int64_t)buffer->size;
  made->stride = 1;
  made->managed.tensor = (DLTensor){.data = verbena_buffer_data(buffer->buffer),
                                    .device = {dl_cpu, 0},
                                    .ndim = 1,
                                    .dtype = {dl_uint, 8, 1},
                                    .shape = &made->shape,
                                    .strides = &made->stride};
  made->managed.context = buffer;
  made->managed.deleter = free_tensor;
  Py_INCREF((PyObject*)buffer);
  ++buffer->exports;
  PyObject* capsule = PyCapsule_New(made, "dltensor", free_capsule);
  if (capsule == NULL) free_tensor(&made->managed);
  return capsule;
}
