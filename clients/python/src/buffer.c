// Buffer: memory prepared for RDMA.
#include "native.h"

static const size_t large_size = (size_t)4 << 20;

Buffer* new_buffer(Client* client, size_t size) {
  verbena_buffer* memory = size == 0 ? NULL : pool_take(client, size);
  if (memory == NULL) {
    verbena_client* used = begin_use(client);
    if (used == NULL) return NULL;
    int code = 0;
    Py_BEGIN_ALLOW_THREADS
    code = verbena_buffer_alloc(used, pool_class(size), &memory);
    Py_END_ALLOW_THREADS
    end_use(client, used);
    if (code != VERBENA_OK) return (Buffer*)raise_last(code);
  }
  Buffer* buffer = (Buffer*)PyType_GenericAlloc(buffer_type, 0);
  if (buffer == NULL) {
    verbena_buffer_free(memory);
    return NULL;
  }
  buffer->buffer = memory;
  buffer->size = size;
  Py_INCREF((PyObject*)client);
  buffer->owner = client;
  return buffer;
}

static void let_go(Buffer* buffer) {
  if (buffer->buffer == NULL) return;
  if (buffer->registered) {
    verbena_buffer_free(buffer->buffer);
    PyBuffer_Release(&buffer->view);
    Py_CLEAR(buffer->device);
  } else {
    pool_put(buffer->owner, buffer->buffer);
  }
  buffer->buffer = NULL;
}

static void buffer_dealloc(PyObject* self) {
  Buffer* buffer = (Buffer*)self;
  let_go(buffer);
  Py_XDECREF((PyObject*)buffer->owner);
  Py_XDECREF(buffer->reply);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

static bool released(Buffer* buffer) {
  if (buffer->buffer != NULL) return false;
  PyErr_SetString(PyExc_ValueError, "the buffer was released");
  return true;
}

// No CPU can read the memory of a device.
static bool out_of_reach(Buffer* buffer) {
  if (buffer->device == NULL) return false;
  PyErr_SetString(PyExc_BufferError, "the buffer's memory is a device's: use the array that was registered");
  return true;
}

static int buffer_get(PyObject* self, Py_buffer* view, int flags) {
  Buffer* buffer = (Buffer*)self;
  view->obj = NULL;
  if (released(buffer) || out_of_reach(buffer)) return -1;
  const int readonly = buffer->registered && buffer->view.readonly;
  if (PyBuffer_FillInfo(view, self, verbena_buffer_data(buffer->buffer), (Py_ssize_t)buffer->size, readonly, flags) < 0) {
    return -1;
  }
  ++buffer->exports;
  return 0;
}

static void buffer_release_view(PyObject* self, Py_buffer* view) {
  (void)view;
  --((Buffer*)self)->exports;
}

static Py_ssize_t buffer_length(PyObject* self) { return (Py_ssize_t)((Buffer*)self)->size; }

static PyObject* buffer_item(PyObject* self, PyObject* key) {
  PyObject* view = PyMemoryView_FromObject(self);
  PyObject* item = view == NULL ? NULL : PyObject_GetItem(view, key);
  Py_XDECREF(view);
  return item;
}

// Releases the GIL.
static PyObject* large_bytes(Buffer* buffer) {
  PyObject* made = new_large_bytes(buffer->owner, (Py_ssize_t)buffer->size);
  if (made == NULL) return NULL;
  char* into = PyBytes_AsString(made);
  ++buffer->exports;
  Py_BEGIN_ALLOW_THREADS
  memcpy(into, verbena_buffer_data(buffer->buffer), buffer->size);
  Py_END_ALLOW_THREADS
  --buffer->exports;
  remember_large_bytes(buffer->owner, made);
  return made;
}

PyObject* buffer_tobytes(PyObject* self, PyObject* unused) {
  (void)unused;
  Buffer* buffer = (Buffer*)self;
  if (released(buffer) || out_of_reach(buffer)) return NULL;
  if (buffer->size >= large_size) return large_bytes(buffer);
  return PyBytes_FromStringAndSize(verbena_buffer_data(buffer->buffer), (Py_ssize_t)buffer->size);
}

static PyObject* buffer_release(PyObject* self, PyObject* unused) {
  (void)unused;
  Buffer* buffer = (Buffer*)self;
  if (buffer->exports != 0) {
    PyErr_SetString(PyExc_BufferError, "the buffer is in use: views of it, or calls");
    return NULL;
  }
  let_go(buffer);
  Py_RETURN_NONE;
}

static PyObject* buffer_enter(PyObject* self, PyObject* unused) {
  (void)unused;
  if (released((Buffer*)self)) return NULL;
  Py_INCREF(self);
  return self;
}
static PyObject* buffer_exit(PyObject* self, PyObject* unused) { return buffer_release(self, unused); }

static PyObject* buffer_device(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  return Py_BuildValue("(ii)", 1, 0);
}

static PyObject* get_reply(PyObject* self, void* unused) {
  (void)unused;
  PyObject* reply = ((Buffer*)self)->reply;
  if (reply == NULL) Py_RETURN_NONE;
  Py_INCREF((PyObject*)reply);
  return reply;
}

static PyObject* buffer_repr(PyObject* self) {
  return PyUnicode_FromFormat("<verbena.Buffer of %zu bytes%s>", ((Buffer*)self)->size,
                              ((Buffer*)self)->buffer == NULL ? ", released" : "");
}

static PyMethodDef buffer_methods[] = {
    {"tobytes", buffer_tobytes, METH_NOARGS, "A copy as bytes."},
    {"release", buffer_release, METH_NOARGS, "Gives the memory back now. BufferError while views of it are alive."},
    {"__enter__", buffer_enter, METH_NOARGS, NULL},
    {"__exit__", buffer_exit, METH_VARARGS, NULL},
    {"__bytes__", buffer_tobytes, METH_NOARGS, NULL},
    {"__dlpack__", (PyCFunction)(void*)buffer_dlpack, METH_VARARGS | METH_KEYWORDS, "The bytes as a DLPack tensor (uint8), not copied."},
    {"__dlpack_device__", buffer_device, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef buffer_attributes[] = {
    {"reply", get_reply, NULL, "What the GET that filled it had to say; None for other buffers.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

PyTypeObject* make_buffer_type(void) {
  static PyType_Slot slots[] = {
      {Py_tp_new, made_by_calls}, {Py_tp_dealloc, buffer_dealloc},
      {Py_tp_methods, buffer_methods},
      {Py_tp_getset, buffer_attributes},
      {Py_tp_repr, buffer_repr},
      {Py_bf_getbuffer, buffer_get},
      {Py_bf_releasebuffer, buffer_release_view},
      {Py_mp_length, buffer_length},
      {Py_mp_subscript, buffer_item},
      {Py_tp_doc, "Memory that is ready for RDMA. Has the buffer protocol (memoryview, numpy.frombuffer, bytes) and DLPack\n"
                  "(torch.from_dlpack); neither copies. The memory lives as long as any view of it."},
      {0, NULL}};
  static PyType_Spec spec = {"verbena._native.Buffer", sizeof(Buffer), 0,
                             Py_TPFLAGS_DEFAULT, slots};
  return (PyTypeObject*)PyType_FromSpec(&spec);
}
