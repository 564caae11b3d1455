// Queue and Operation: asynchronous calls, for event loops.
#include "native.h"

typedef struct {
  PyObject_HEAD
  verbena_queue* queue;
  size_t started;
} Queue;

// An asynchronous call. Until it is taken from its queue it holds its future, its memory and its client, and a
// reference to itself: the library stores its address.
typedef struct {
  PyObject_HEAD
  verbena_operation* operation;  // NULL when done
  PyObject *future, *memory;
  Client* client;
  verbena_client* used;
  int kind;
} Operation;

enum { start_get, start_put, start_head, start_delete, start_list, start_append };
static bool has_memory(long kind) { return kind == start_get || kind == start_put || kind == start_append; }

static int queue_init(PyObject* self, PyObject* arguments, PyObject* keywords) {
  (void)arguments, (void)keywords;
  Queue* queue = (Queue*)self;
  if (queue->queue != NULL) return 0;
  const int code = verbena_queue_new(&queue->queue);
  if (code != VERBENA_OK) raise_last(code);
  return code == VERBENA_OK ? 0 : -1;
}

static void queue_dealloc(PyObject* self) {
  verbena_queue_free(((Queue*)self)->queue);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyObject* queue_fileno(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyLong_FromLong(verbena_queue_fd(((Queue*)self)->queue));
}

// start(client, future, kind, bucket, key, memory, **options) -> Operation
static PyObject* queue_start(PyObject* self, PyObject* const* values, Py_ssize_t nargs, PyObject* names) {
  if (nargs != 6 || !PyObject_TypeCheck(values[0], client_type)) {
    PyErr_SetString(PyExc_TypeError, "start(client, future, kind, bucket, key, memory, **options)");
    return NULL;
  }
  const long kind = PyLong_AsLong(values[2]);
  const char *bucket = text_of(values[3], "bucket"), *key = bucket == NULL ? NULL : text_of(values[4], "key");
  if (key == NULL) return NULL;
  const bool moves = has_memory(kind);
  if (moves && (!PyObject_TypeCheck(values[5], buffer_type) || ((Buffer*)values[5])->buffer == NULL ||
                (kind == start_append && ((Buffer*)values[5])->device != NULL))) {
    PyErr_SetString(PyExc_TypeError, "memory must be a Buffer that is not released");
    return NULL;
  }
  if (kind == start_get && !may_be_filled((Buffer*)values[5])) return NULL;
  Request request;
  const bool parsed = kind == start_put      ? parse_put(&request, values, nargs, names)
                      : kind == start_append ? parse_append(&request, values, nargs, names)
                                             : parse_get(&request, values, nargs, names);
  Operation* made = parsed ? (Operation*)PyType_GenericAlloc(operation_type, 0) : NULL;
  verbena_client* used = made == NULL ? NULL : begin_use((Client*)values[0]);
  if (used == NULL) {
    Py_XDECREF((PyObject*)made);
    free_request(&request);
    return NULL;
  }
  made->kind = (int)kind;
  Py_INCREF(values[1]);
  made->future = values[1];
  Py_INCREF(values[5]);
  made->memory = values[5];
  Py_INCREF(values[0]);
  made->client = (Client*)values[0];
  made->used = used;
  Buffer* memory = moves ? (Buffer*)values[5] : NULL;
  if (moves) ++memory->exports;
  Py_INCREF((PyObject*)made);  // the library's reference
  verbena_queue* queue = ((Queue*)self)->queue;
  int code = VERBENA_INVALID_ARGUMENT;
  verbena_head_options head = {.struct_size = sizeof head, .version_id = request.get.version_id};
  verbena_delete_options gone = {.struct_size = sizeof gone, .version_id = request.get.version_id, .if_match = request.get.if_match};
  verbena_list_options list = {.struct_size = sizeof list, .prefix = key, .continuation = request.get.if_match,
                               .delimiter = request.get.if_none_match};
  Py_BEGIN_ALLOW_THREADS
  switch (kind) {
    case start_get:
      code = verbena_start_get(used, queue, bucket, key, memory->buffer, 0, memory->size, &request.get, made, &made->operation);
      break;
    case start_put:
      code = verbena_start_put(used, queue, bucket, key, memory->buffer, 0, memory->size, &request.put, made, &made->operation);
      break;
    case start_append:
      code = verbena_start_append(used, queue, bucket, key, verbena_buffer_data(memory->buffer), memory->size, request.at, &request.put,
                                  made, &made->operation);
      break;
    case start_head: code = verbena_start_head(used, queue, bucket, key, &head, made, &made->operation); break;
    case start_delete: code = verbena_start_delete(used, queue, bucket, key, &gone, made, &made->operation); break;
    case start_list: code = verbena_start_list(used, queue, bucket, &list, made, &made->operation); break;
  }
  Py_END_ALLOW_THREADS
  free_request(&request);
  if (code == VERBENA_OK) {
    ++((Queue*)self)->started;
    return (PyObject*)made;
  }
  raise_last(code);
  made->operation = NULL;
  if (moves) --memory->exports;
  end_use(made->client, used);
  made->used = NULL;
  Py_DECREF((PyObject*)made);
  Py_DECREF((PyObject*)made);
  return NULL;
}

// The future's result: a value, or an exception. Takes the operation.
static PyObject* answer_of(verbena_operation* done, int kind, bool* failed) {
  Reply* reply = new_reply();
  PyObject* answer = (PyObject*)reply;
  const int code = reply == NULL ? VERBENA_OK : verbena_operation_result(done, &reply->bytes, &reply->object, &reply->transfer);
  *failed = code != VERBENA_OK;
  if (reply == NULL || *failed || kind == start_list) {
    if (reply != NULL) answer = *failed ? make_exception() : page_as_tuple(verbena_operation_page(done));
    Py_XDECREF((PyObject*)reply);
    verbena_operation_free(done);
    return answer;
  }
  reply->info = (verbena_info*)verbena_operation_info(done);
  if (reply->info != NULL) {
    reply->operation = done;
  } else {
    verbena_operation_free(done);
  }
  return answer;
}

// Takes what was raised, as an object.
static PyObject* raised(void) {
  PyObject *type = NULL, *value = NULL, *traceback = NULL;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return value;
}

// take(timeout_ms=0) -> [(future, failed, value), ...]
static PyObject* queue_take(PyObject* self, PyObject* arguments) {
  int timeout_ms = 0;
  if (!PyArg_ParseTuple(arguments, "|i:take", &timeout_ms)) return NULL;
  Queue* queue = (Queue*)self;
  PyObject* all = PyList_New(0);
  while (all != NULL) {
    verbena_operation* done = NULL;
    int code = 0;
    Py_BEGIN_ALLOW_THREADS
    code = verbena_queue_next(queue->queue, timeout_ms, &done);
    Py_END_ALLOW_THREADS
    if (code != VERBENA_OK && PyList_Size(all) > 0) break;  // what was taken is not lost: the next call says it
    if (code != VERBENA_OK) {
      Py_DECREF(all);
      return raise_last(code);
    }
    if (done == NULL) break;
    timeout_ms = 0;
    Operation* operation = verbena_operation_context(done);
    operation->operation = NULL;
    bool failed = false;
    PyObject* value = answer_of(done, operation->kind, &failed);
    if (value == NULL) {  // what prevented the answer is the call's own failure, not that of all that are taken
      value = raised();
      failed = true;
    }
    if (has_memory(operation->kind)) --((Buffer*)operation->memory)->exports;
    end_use(operation->client, operation->used);
    operation->used = NULL;
    PyObject* entry = value == NULL ? NULL : Py_BuildValue("(OON)", operation->future, failed ? Py_True : Py_False, value);
    if (entry == NULL || PyList_Append(all, entry) < 0) Py_CLEAR(all);
    Py_XDECREF(entry);
    --queue->started;
    Py_DECREF((PyObject*)operation);
  }
  return all;
}

static PyObject* get_started(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromSize_t(((Queue*)self)->started);
}

static PyObject* operation_cancel(PyObject* self, PyObject* unused) {
  (void)unused;
  verbena_operation_cancel(((Operation*)self)->operation);
  Py_RETURN_NONE;
}

static void operation_dealloc(PyObject* self) {
  Operation* operation = (Operation*)self;
  Py_XDECREF(operation->future);
  Py_XDECREF(operation->memory);
  Py_XDECREF((PyObject*)operation->client);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyMethodDef queue_methods[] = {
    {"fileno", queue_fileno, METH_NOARGS, "Readable while calls wait to be taken."},
    {"start", (PyCFunction)(void*)queue_start, METH_FASTCALL | METH_KEYWORDS, "start(client, future, kind, bucket, key, memory, **options) -> Operation"},
    {"take", queue_take, METH_VARARGS, "take(timeout_ms=0) -> [(future, failed, value), ...]"},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef queue_attributes[] = {{"started", get_started, NULL, "Calls under way.", NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef operation_methods[] = {{"cancel", operation_cancel, METH_NOARGS, "It then comes out of its queue soon."},
                                          {NULL, NULL, 0, NULL}};

PyTypeObject* make_queue_type(void) {
  static PyType_Slot slots[] = {{Py_tp_new, PyType_GenericNew}, {Py_tp_init, queue_init}, {Py_tp_dealloc, queue_dealloc},
                                {Py_tp_methods, queue_methods}, {Py_tp_getset, queue_attributes}, {0, NULL}};
  static PyType_Spec spec = {"verbena._native.Queue", sizeof(Queue), 0, Py_TPFLAGS_DEFAULT, slots};
  return (PyTypeObject*)PyType_FromSpec(&spec);
}

PyTypeObject* make_operation_type(void) {
  static PyType_Slot slots[] = {{Py_tp_new, made_by_calls}, {Py_tp_dealloc, operation_dealloc}, {Py_tp_methods, operation_methods}, {0, NULL}};
  static PyType_Spec spec = {"verbena._native.Operation", sizeof(Operation), 0,
                             Py_TPFLAGS_DEFAULT, slots};
  return (PyTypeObject*)PyType_FromSpec(&spec);
}
