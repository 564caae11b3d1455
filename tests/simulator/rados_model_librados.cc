// librados's functions that store/rados and its tests call, over the model. Buffers (ceph::buffer) are the library's
// own: they are memory and do nothing.
#include <rados/librados.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "simulator/rados_model_session.h"

namespace librados {

using verbena::simulator::RadosAnswer;
using verbena::simulator::RadosCall;
using verbena::simulator::RadosDuration;
using verbena::simulator::RadosOperation;
using verbena::simulator::RadosOperations;
using verbena::simulator::RadosSession;
using verbena::simulator::RadosSessionPtr;
using Kind = RadosOperation::Kind;

struct AioCompletionImpl {
  std::mutex mutex;
  std::condition_variable ended;
  bool is_complete = false;
  int references = 1, code = 0;
  uint64_t version = 0;
  callback_t callback = nullptr;
  void* argument = nullptr;

  AioCompletionImpl* get() {
    const std::lock_guard lock(mutex);
    ++references;
    return this;
  }
  void put() {
    bool is_last = false;
    {
      const std::lock_guard lock(mutex);
      is_last = --references == 0;
    }
    if (is_last) delete this;
  }
  void complete(int result, uint64_t number) {
    {
      const std::lock_guard lock(mutex);
      code = result;
      version = number;
      is_complete = true;
      ended.notify_all();
    }
    if (callback != nullptr) callback(this, argument);
    put();
  }
};

class ObjectOperationImpl {
 public:
  RadosOperations operations;
};

struct IoCtxImpl {
  RadosSessionPtr session;
  std::string pool, prefix = std::string(1, '\0');  // of names: the namespace
  bool is_snapshot = false;

  std::string name(const std::string& object) const { return prefix + object; }
};

struct ListObjectImpl {
  std::string name_space, object, locator{};
};

class NObjectIteratorImpl {
 public:
  explicit NObjectIteratorImpl(const IoCtxImpl& pool) : pool_(pool) { next(); }
  void next() {
    if (page_.empty()) {
      const auto names = pool_.session->list(pool_.pool, pool_.prefix, last_);
      page_.assign(names.begin(), names.end());
    }
    current_ = {};
    is_over_ = page_.empty();
    if (is_over_) return;
    last_ = page_.front();
    page_.pop_front();
    const size_t end = pool_.prefix.size();
    current_ = {pool_.prefix.substr(0, end - 1), last_.substr(end)};
    object_ = std::unique_ptr<ListObject>(new ListObject(new ListObjectImpl(current_)));
  }
  bool is_over() const { return is_over_; }
  const ListObject* object() const { return object_.get(); }

 private:
  const IoCtxImpl pool_;
  std::deque<std::string> page_;
  std::string last_;
  ListObjectImpl current_;
  std::unique_ptr<ListObject> object_;
  bool is_over_ = false;
};

inline namespace v14_2_0 {

class RadosClient {
 public:
  std::string user;
  std::chrono::seconds timeout{10};
  RadosSessionPtr session;
};

}  // namespace v14_2_0

namespace {

void set(bufferlist& into, const std::string& bytes) {
  into = bufferlist();
  into.append(bytes.data(), static_cast<unsigned>(bytes.size()));
}

template <class Map>
void set(Map& into, const RadosAnswer& answer) {
  into.clear();
  for (const auto& [name, value] : answer.rows) set(into[name], value);
}

void set(int* into, const RadosAnswer& answer) {
  if (into != nullptr) *into = answer.code;
}

std::string text_of(const bufferlist& bytes) { return bytes.to_str(); }

RadosOperation operation(Kind kind, std::string name = {}, std::string bytes = {}) {
  return {.kind = kind, .name = std::move(name), .bytes = std::move(bytes)};
}

RadosOperation set_rows(const std::map<std::string, bufferlist>& rows) {
  RadosOperation what = operation(Kind::set_rows);
  for (const auto& [name, value] : rows) what.rows[name] = text_of(value);
  return what;
}

std::function<void(int, uint64_t)> ends(AioCompletion* completion) {
  return [of = completion->pc->get()](int code, uint64_t version) { of->complete(code, version); };
}

verbena::simulator::RadosCallPtr call_on(const IoCtxImpl& pool, const std::string& object) {
  return std::make_shared<RadosCall>(
      RadosCall{.session = pool.session, .pool = pool.pool, .object = pool.name(object)});
}

int change(const IoCtxImpl& pool, const std::string& object, RadosOperation what) {
  if (pool.is_snapshot) return -EROFS;
  const auto call = call_on(pool, object);
  call->is_write = true;
  call->operations.push_back(std::move(what));
  return pool.session->wait_for(call);
}

// What end_notify() in rados_model_watch.cc wrote.
class Reader {
 public:
  explicit Reader(std::string text) : text_(std::move(text)) {}
  uint64_t number() {
    uint64_t value = 0;
    std::memcpy(&value, text(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text(size_t size) {
    if (text_.size() - at_ < size) throw std::out_of_range("rados: answers of watchers");
    return text_.substr(std::exchange(at_, at_ + size), size);
  }

 private:
  const std::string text_;
  size_t at_ = 0;
};

std::function<void(RadosAnswer&)> watchers_into(std::list<obj_watch_t>* watchers, int* code) {
  return [=](RadosAnswer& answer) {
    set(code, answer);
    for (const auto& [watch, client] : answer.rows) {
      obj_watch_t one{};
      std::strcpy(one.addr, "model");
      one.watcher_id = std::stoll(client);
      one.cookie = std::stoull(watch);
      watchers->push_back(one);
    }
  };
}

}  // namespace

inline namespace v14_2_0 {

// Completions.

AioCompletion* Rados::aio_create_completion(void* argument, callback_t callback) {
  auto* impl = new AioCompletionImpl;
  impl->callback = callback;
  impl->argument = argument;
  return new AioCompletion(impl);
}
AioCompletion::~AioCompletion() { pc->put(); }
void AioCompletion::release() { delete this; }
int AioCompletion::get_return_value() {
  const std::lock_guard lock(pc->mutex);
  return pc->code;
}
uint64_t AioCompletion::get_version64() {
  const std::lock_guard lock(pc->mutex);
  return pc->version;
}
int AioCompletion::wait_for_complete() {
  std::unique_lock lock(pc->mutex);
  pc->ended.wait(lock, [this] { return pc->is_complete; });
  return 0;
}

// The cluster.

Rados::Rados() : client(nullptr) {}
Rados::~Rados() { shutdown(); }
int Rados::init(const char* id) {
  client = new RadosClient;
  client->user = id == nullptr ? "" : id;
  return 0;
}
int Rados::conf_read_file(const char* /*path*/) const { return 0; }
int Rados::conf_set(const char* option, const char* value) {
  if (std::string_view(option) == "rados_osd_op_timeout") client->timeout = std::chrono::seconds(std::stoul(value));
  return 0;
}
int Rados::connect() {
  client->session = RadosSession::connect(client->user, client->timeout);
  return 0;
}
void Rados::shutdown() {
  if (client == nullptr) return;
  if (client->session) client->session->close();
  delete client;
  client = nullptr;
}
int Rados::watch_flush() {
  client->session->flush_watches();
  return 0;
}
int Rados::ioctx_create(const char* name, IoCtx& pool) {
  if (!client->session->has_pool(name)) return -ENOENT;
  pool.close();
  pool.io_ctx_impl = new IoCtxImpl{client->session, name};
  return 0;
}
int64_t Rados::pool_lookup(const char* name) { return client->session->has_pool(name) ? 1 : -ENOENT; }
int Rados::mon_command(std::string, const bufferlist&, bufferlist*, std::string*) { return -EOPNOTSUPP; }
int Rados::cluster_fsid(std::string* fsid) {
  *fsid = "model";
  return 0;
}
int Rados::cluster_stat(cluster_stat_t& result) {
  result = {.kb = 1 << 20, .kb_used = 0, .kb_avail = 1 << 20, .num_objects = 0};
  return 0;
}
int Rados::get_pool_stats(std::list<std::string>& names, stats_map& result) {
  for (const std::string& name : names) result[name] = {};
  return 0;
}

// Pools.

IoCtx::IoCtx() : io_ctx_impl(nullptr) {}
IoCtx::~IoCtx() { close(); }
void IoCtx::close() {
  delete io_ctx_impl;
  io_ctx_impl = nullptr;
}
void IoCtx::set_namespace(const std::string& name) { io_ctx_impl->prefix = name + '\0'; }
int IoCtx::pool_requires_alignment2(bool* requires_it) {
  *requires_it = io_ctx_impl->session->is_erasure_coded(io_ctx_impl->pool);
  return 0;
}
void IoCtx::snap_set_read(snap_t snapshot) { io_ctx_impl->is_snapshot = snapshot != SNAP_HEAD; }

int IoCtx::aio_operate(const std::string& object, AioCompletion* completion, ObjectReadOperation* op, bufferlist*) {
  const auto call = call_on(*io_ctx_impl, object);
  call->operations = std::move(op->impl->operations);
  call->done = ends(completion);
  io_ctx_impl->session->send(call);
  return 0;
}
int IoCtx::aio_operate(const std::string& object, AioCompletion* completion, ObjectWriteOperation* op, int flags) {
  if (io_ctx_impl->is_snapshot) return -EROFS;
  const auto call = call_on(*io_ctx_impl, object);
  call->is_write = true;
  call->full_try = (flags & OPERATION_FULL_TRY) != 0;
  call->operations = std::move(op->impl->operations);
  call->done = ends(completion);
  io_ctx_impl->session->send(call);
  return 0;
}
int IoCtx::create(const std::string& object, bool exclusive) {
  RadosOperation what = operation(Kind::create);
  what.exclusive = exclusive;
  return change(*io_ctx_impl, object, std::move(what));
}
int IoCtx::omap_set(const std::string& object, const std::map<std::string, bufferlist>& rows) {
  return change(*io_ctx_impl, object, set_rows(rows));
}
int IoCtx::remove(const std::string& object) { return change(*io_ctx_impl, object, operation(Kind::remove)); }

int IoCtx::aio_watch2(const std::string& object, AioCompletion* completion, uint64_t* handle, WatchCtx2* context,
                      uint32_t timeout) {
  const IoCtxImpl& pool = *io_ctx_impl;
  const std::chrono::seconds lasts(timeout == 0 ? 30 : timeout);
  *handle = pool.session->watch(pool.pool, pool.name(object), lasts, context, ends(completion));
  return 0;
}
int IoCtx::aio_unwatch(uint64_t handle, AioCompletion* completion) {
  io_ctx_impl->session->unwatch(handle, ends(completion));
  return 0;
}
int IoCtx::watch2(const std::string& object, uint64_t* handle, WatchCtx2* context) {
  AioCompletion* completion = Rados::aio_create_completion(nullptr, nullptr);
  aio_watch2(object, completion, handle, context, 0);
  completion->wait_for_complete();
  const int code = completion->get_return_value();
  completion->release();
  return code;
}
int IoCtx::unwatch2(uint64_t handle) {
  AioCompletion* completion = Rados::aio_create_completion(nullptr, nullptr);
  aio_unwatch(handle, completion);
  completion->wait_for_complete();
  const int code = completion->get_return_value();
  completion->release();
  return code;
}
int IoCtx::watch_check(uint64_t handle) { return io_ctx_impl->session->age_of(handle); }
int IoCtx::aio_notify(const std::string& object, AioCompletion* completion, bufferlist& message, uint64_t timeout_ms,
                      bufferlist* reply) {
  const IoCtxImpl& pool = *io_ctx_impl;
  auto into = [reply](RadosAnswer& answer) {
    if (reply != nullptr) set(*reply, answer.bytes);
  };
  pool.session->notify(pool.pool, pool.name(object), text_of(message), std::chrono::milliseconds(timeout_ms), into,
                       ends(completion));
  return 0;
}
void IoCtx::notify_ack(const std::string& object, uint64_t notify, uint64_t watch, bufferlist& answer) {
  const IoCtxImpl& pool = *io_ctx_impl;
  pool.session->acknowledge(pool.pool, pool.name(object), notify, watch, text_of(answer));
}
void IoCtx::decode_notify_response(bufferlist& reply, std::vector<notify_ack_t>* answers,
                                   std::vector<notify_timeout_t>* silent) {
  Reader reader(text_of(reply));
  for (uint64_t left = reader.number(); left != 0; --left) {
    notify_ack_t answer{reader.number(), reader.number(), {}};
    set(answer.payload_bl, reader.text(reader.number()));
    answers->push_back(answer);
  }
  for (uint64_t left = reader.number(); left != 0; --left) silent->push_back({reader.number(), reader.number()});
}
int IoCtx::list_watchers(const std::string& object, std::list<obj_watch_t>* watchers) {
  const auto call = call_on(*io_ctx_impl, object);
  call->operations.push_back(operation(Kind::watchers));
  call->operations.back().deliver = watchers_into(watchers, nullptr);
  return io_ctx_impl->session->wait_for(call);
}

// Listings.

const NObjectIterator NObjectIterator::__EndObjectIterator;
NObjectIterator::NObjectIterator(const NObjectIterator& other) : impl(nullptr) { *this = other; }
NObjectIterator& NObjectIterator::operator=(const NObjectIterator& other) {
  if (this != &other) std::swap(impl, const_cast<NObjectIterator&>(other).impl);  // each is copied once, and left
  return *this;
}
NObjectIterator::~NObjectIterator() { delete impl; }
bool NObjectIterator::operator==(const NObjectIterator& other) const {
  const bool is_over = impl == nullptr || impl->is_over(),
             other_is_over = other.impl == nullptr || other.impl->is_over();
  return is_over && other_is_over ? true : impl == other.impl;
}
bool NObjectIterator::operator!=(const NObjectIterator& other) const { return !(*this == other); }
const ListObject& NObjectIterator::operator*() const { return *impl->object(); }
const ListObject* NObjectIterator::operator->() const { return impl->object(); }
NObjectIterator& NObjectIterator::operator++() {
  impl->next();
  return *this;
}
ListObject::ListObject() : impl(nullptr) {}
ListObject::ListObject(ListObjectImpl* of) : impl(of) {}
ListObject::~ListObject() { delete impl; }
const std::string& ListObject::get_oid() const { return impl->object; }
const std::string& ListObject::get_nspace() const { return impl->name_space; }
NObjectIterator IoCtx::nobjects_begin(const bufferlist& /*filter*/) {
  NObjectIterator first;
  first.impl = new NObjectIteratorImpl(*io_ctx_impl);
  return first;
}
const NObjectIterator& IoCtx::nobjects_end() const { return NObjectIterator::__EndObjectIterator; }

// Operations.

WatchCtx2::~WatchCtx2() = default;
ObjectOperation::ObjectOperation() : impl(new ObjectOperationImpl) {}
ObjectOperation::ObjectOperation(ObjectOperation&& other) : impl(std::exchange(other.impl, nullptr)) {}
ObjectOperation& ObjectOperation::operator=(ObjectOperation&& other) {
  std::swap(impl, other.impl);
  return *this;
}
ObjectOperation::~ObjectOperation() { delete impl; }
size_t ObjectOperation::size() { return impl->operations.size(); }
void ObjectOperation::assert_exists() { impl->operations.push_back(operation(Kind::assert_exists)); }
void ObjectOperation::assert_version(uint64_t version) {
  impl->operations.push_back(operation(Kind::assert_version));
  impl->operations.back().from = version;
}
void ObjectOperation::cmpxattr(const char* name, uint8_t comparison, const bufferlist& value) {
  impl->operations.push_back(operation(Kind::compare_attribute, name, text_of(value)));
  impl->operations.back().comparison = comparison;
}
void ObjectOperation::omap_cmp(const std::map<std::string, std::pair<bufferlist, int>>& wanted, int* code) {
  impl->operations.push_back(operation(Kind::compare_rows));
  RadosOperation& last = impl->operations.back();
  for (const auto& [name, value] : wanted) last.compared[name] = {text_of(value.first), value.second};
  last.deliver = [code](RadosAnswer& answer) { set(code, answer); };
}

void ObjectWriteOperation::create(bool exclusive) {
  impl->operations.push_back(operation(Kind::create));
  impl->operations.back().exclusive = exclusive;
}
void ObjectWriteOperation::write_full(const bufferlist& bytes) {
  impl->operations.push_back(operation(Kind::write_full, {}, text_of(bytes)));
}
void ObjectWriteOperation::remove() { impl->operations.push_back(operation(Kind::remove)); }
void ObjectWriteOperation::setxattr(const char* name, const bufferlist& value) {
  impl->operations.push_back(operation(Kind::set_attribute, name, text_of(value)));
}
void ObjectWriteOperation::setxattr(const char* name, const bufferlist&& value) {
  setxattr(name, static_cast<const bufferlist&>(value));
}
void ObjectWriteOperation::omap_set(const std::map<std::string, bufferlist>& rows) {
  impl->operations.push_back(set_rows(rows));
}
void ObjectWriteOperation::omap_rm_keys(const std::set<std::string>& names) {
  impl->operations.push_back(operation(Kind::remove_rows));
  impl->operations.back().names = names;
}

void ObjectReadOperation::stat(uint64_t* size, time_t* modified, int* code) {
  impl->operations.push_back(operation(Kind::stat));
  impl->operations.back().deliver = [=](RadosAnswer& answer) {
    set(code, answer);
    if (size != nullptr) *size = answer.size;
    if (modified != nullptr) *modified = answer.modified_s;
  };
}
void ObjectReadOperation::getxattr(const char* name, bufferlist* value, int* code) {
  impl->operations.push_back(operation(Kind::attribute, name));
  impl->operations.back().deliver = [=](RadosAnswer& answer) {
    set(code, answer);
    if (value != nullptr && answer.code >= 0) set(*value, answer.bytes);
  };
}
void ObjectReadOperation::getxattrs(std::map<std::string, bufferlist>* values, int* code) {
  impl->operations.push_back(operation(Kind::attributes));
  impl->operations.back().deliver = [=](RadosAnswer& answer) {
    set(code, answer);
    set(*values, answer);
  };
}
void ObjectReadOperation::read(size_t from, uint64_t length, bufferlist* bytes, int* code) {
  impl->operations.push_back(operation(Kind::read));
  RadosOperation& last = impl->operations.back();
  last.from = from;
  last.length = length;
  last.deliver = [=](RadosAnswer& answer) {
    set(code, answer);
    if (bytes != nullptr) set(*bytes, answer.bytes);
  };
}
void ObjectReadOperation::omap_get_vals2(const std::string& after, const std::string& prefix, uint64_t most,
                                         std::map<std::string, bufferlist>* rows, bool* more, int* code) {
  impl->operations.push_back(operation(Kind::rows_from, after));
  RadosOperation& last = impl->operations.back();
  last.prefix = prefix;
  last.length = most;
  last.deliver = [=](RadosAnswer& answer) {
    set(code, answer);
    if (more != nullptr) *more = answer.more;
    set(*rows, answer);
  };
}
void ObjectReadOperation::omap_get_keys2(const std::string& after, uint64_t most, std::set<std::string>* names,
                                         bool* more, int* code) {
  impl->operations.push_back(operation(Kind::rows_from, after));
  RadosOperation& last = impl->operations.back();
  last.length = most;
  last.deliver = [=](RadosAnswer& answer) {
    set(code, answer);
    if (more != nullptr) *more = answer.more;
    for (const auto& [name, value] : answer.rows) names->insert(name);
  };
}
void ObjectReadOperation::omap_get_vals_by_keys(const std::set<std::string>& names,
                                                std::map<std::string, bufferlist>* rows, int* code) {
  impl->operations.push_back(operation(Kind::rows_named));
  RadosOperation& last = impl->operations.back();
  last.names = names;
  last.deliver = [=](RadosAnswer& answer) {
    set(code, answer);
    set(*rows, answer);
  };
}
void ObjectReadOperation::list_watchers(std::list<obj_watch_t>* watchers, int* code) {
  impl->operations.push_back(operation(Kind::watchers));
  impl->operations.back().deliver = watchers_into(watchers, code);
}

}  // namespace v14_2_0
}  // namespace librados
