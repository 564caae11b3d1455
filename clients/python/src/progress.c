// Progress: how many leading items of a get_many have arrived, for other threads to wait for.
#include "native.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

struct Progress {
  PyObject_HEAD
  pthread_mutex_t mutex;
  pthread_cond_t grown;
  size_t before;   // items of the batches that have ended
  size_t leading;  // with those of the present one
  bool ended;
};

static void advance(Progress* progress, size_t leading, bool ended) {
  pthread_mutex_lock(&progress->mutex);
  if (leading > progress->leading) progress->leading = leading;
  progress->ended = progress->ended || ended;
  pthread_cond_broadcast(&progress->grown);
  pthread_mutex_unlock(&progress->mutex);
}

void progress_in_order(void* context, size_t leading) {
  Progress* progress = context;
  advance(progress, progress->before + leading, false);
}

void progress_batch_ended(Progress* progress, size_t count) {
  progress->before += count;
  advance(progress, progress->before, false);
}

static PyObject* progress_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  (void)arguments, (void)keywords;
  Progress* made = (Progress*)PyType_GenericAlloc(type, 0);
  if (made == NULL) return NULL;
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_mutex_init(&made->mutex, NULL);
  pthread_cond_init(&made->grown, &clock);
  pthread_condattr_destroy(&clock);
  return (PyObject*)made;
}

static void progress_dealloc(PyObject* self) {
  pthread_cond_destroy(&((Progress*)self)->grown);
  pthread_mutex_destroy(&((Progress*)self)->mutex);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

static struct timespec after(long timeout_ms) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += timeout_ms / 1000;
  until.tv_nsec += timeout_ms % 1000 * 1000000;
  if (until.tv_nsec >= 1000000000) {
    ++until.tv_sec;
    until.tv_nsec -= 1000000000;
  }
  return until;
}

static PyObject* progress_wait(PyObject* self, PyObject* arguments) {
  Progress* progress = (Progress*)self;
  Py_ssize_t wanted = 0;
  long timeout_ms = 0;
  if (!PyArg_ParseTuple(arguments, "nl", &wanted, &timeout_ms)) return NULL;
  if (wanted < 0 || timeout_ms < 0) {
    PyErr_SetString(PyExc_ValueError, "wait(leading, timeout_ms): neither is below 0");
    return NULL;
  }
  const struct timespec until = after(timeout_ms);
  size_t leading = 0;
  Py_BEGIN_ALLOW_THREADS
  pthread_mutex_lock(&progress->mutex);
  while (progress->leading < (size_t)wanted && !progress->ended &&
         pthread_cond_timedwait(&progress->grown, &progress->mutex, &until) != ETIMEDOUT) {
  }
  leading = progress->leading;
  pthread_mutex_unlock(&progress->mutex);
  Py_END_ALLOW_THREADS
  return PyLong_FromSize_t(leading);
}

static PyObject* progress_end(PyObject* self, PyObject* unused) {
  (void)unused;
  advance((Progress*)self, 0, true);
  Py_RETURN_NONE;
}

static PyObject* get_leading(PyObject* self, void* unused) {
  (void)unused;
  Progress* progress = (Progress*)self;
  pthread_mutex_lock(&progress->mutex);
  const size_t leading = progress->leading;
  pthread_mutex_unlock(&progress->mutex);
  return PyLong_FromSize_t(leading);
}

static PyMethodDef progress_methods[] = {
    {"wait", progress_wait, METH_VARARGS,
     "wait(leading, timeout_ms): until that many leading items have arrived, the call has ended or the time is over. Returns how many have."},
    {"end", progress_end, METH_NOARGS, "No more items will arrive: every wait returns."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef progress_attributes[] = {
    {"leading", get_leading, NULL, "How many leading items have arrived, or have an error.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

PyTypeObject* make_progress_type(void) {
  static PyType_Slot slots[] = {
      {Py_tp_new, progress_new}, {Py_tp_dealloc, progress_dealloc},
      {Py_tp_methods, progress_methods},
      {Py_tp_getset, progress_attributes},
      {Py_tp_doc, "The arrival of a get_many's items, in their order. Their memory is not written any more."},
      {0, NULL}};
  static PyType_Spec spec = {"verbena._native.Progress", sizeof(Progress), 0, Py_TPFLAGS_DEFAULT, slots};
  progress_type = (PyTypeObject*)PyType_FromSpec(&spec);
  return progress_type;
}
