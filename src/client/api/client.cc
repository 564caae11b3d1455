// The public API: passes arguments to the shared Impl and returns its answers.
#include "verbena/client.h"

#include "client/api/client_impl.h"

namespace verbena {

using client::fault;

Buffer Buffer::slice(size_t offset, size_t size) const {
  if (offset > bytes_.size() || size > bytes_.size() - offset) return {};
  Buffer out;
  out.memory_ = memory_;
  out.bytes_ = bytes_.subspan(offset, size);
  return out;
}

Outcome<Client> Client::connect(ClientOptions options) {
  OUT_ASSIGN(auto impl, Impl::create(std::move(options)));
  return Client(std::move(impl));
}

Outcome<Buffer> Client::allocate(size_t size) const {
  OUT_TRY(impl_->usable());
  return impl_->allocate(size);
}

Outcome<Buffer> Client::register_memory(void* data, size_t size) const {
  if (data == nullptr || size == 0) return fault(ErrorCode::invalid_argument, "no memory to register");
  Buffer out;
  out.memory_ = std::make_shared<Buffer::Memory>();
  out.bytes_ = {static_cast<std::byte*>(data), size};
  return out;
}

Outcome<Buffer> Client::register_memory(const DeviceBuffer& memory) const {
  OUT_TRY(impl_->usable());
  OUT_ASSIGN(auto device, client::device_memory(memory));
  Buffer out;
  out.memory_ = std::make_shared<Buffer::Memory>();
  out.memory_->device = std::make_unique<client::DeviceMemory>(std::move(device));
  out.bytes_ = {reinterpret_cast<std::byte*>(static_cast<uintptr_t>(memory.address)), memory.size};
  return out;
}

bool Buffer::on_device() const { return memory_ && memory_->device; }

Outcome<GetReply> Client::get(const std::string& bucket, const std::string& key, const Buffer& into,
                              const GetOptions& options) const {
  OUT_TRY(impl_->usable());
  if (into.on_device()) return impl_->device_get(bucket, key, into, options);
  return impl_->get(bucket, key, {into.bytes_, into.memory_ ? into.memory_->native.get() : nullptr}, options);
}

Outcome<GetReply> Client::get(const std::string& bucket, const std::string& key, std::span<std::byte> into,
                              const GetOptions& options) const {
  OUT_TRY(impl_->usable());
  return impl_->get(bucket, key, {into, nullptr}, options);
}

Outcome<GetReply> Client::get_ranges(const std::string& bucket, const std::string& key, std::span<const Range> ranges,
                                     const Buffer& into, const GetOptions& options) const {
  OUT_TRY(impl_->usable());
  return impl_->get_ranges(bucket, key, ranges, into, options);
}

Outcome<PutReply> Client::put(const std::string& bucket, const std::string& key, const Buffer& from,
                              const PutOptions& options) const {
  OUT_TRY(impl_->usable());
  if (from.on_device()) return impl_->device_put(bucket, key, from, options);
  return impl_->put(bucket, key, {from.bytes_, from.memory_ ? from.memory_->native.get() : nullptr}, options);
}

Outcome<PutReply> Client::put(const std::string& bucket, const std::string& key, std::span<const std::byte> from,
                              const PutOptions& options) const {
  OUT_TRY(impl_->usable());
  return impl_->put(bucket, key, {from, nullptr}, options);
}

Outcome<PutReply> Client::put_stream(const std::string& bucket, const std::string& key, const Reader& from,
                                     const PutOptions& options) const {
  OUT_TRY(impl_->usable());
  return impl_->put_stream(bucket, key, from, options);
}

Outcome<ObjectInfo> Client::head(const std::string& bucket, const std::string& key, const HeadOptions& options) const {
  OUT_TRY(impl_->usable());
  return impl_->head(bucket, key, options);
}

Outcome<> Client::remove(const std::string& bucket, const std::string& key, const RemoveOptions& options) const {
  OUT_TRY(impl_->usable());
  return impl_->remove(bucket, key, options);
}

Outcome<> Client::rename(const std::string& bucket, const std::string& from, const std::string& to,
                         const RenameOptions& options) const {
  OUT_TRY(impl_->usable());
  return impl_->rename(bucket, from, to, options);
}

Outcome<ListPage> Client::list(const std::string& bucket, const ListOptions& options) const {
  OUT_TRY(impl_->usable());
  return impl_->list(bucket, options);
}

Outcome<> Client::for_each(const std::string& bucket, const std::string& prefix,
                           const std::function<bool(const ObjectInfo&)>& visit) const {
  OUT_TRY(impl_->usable());
  return impl_->for_each(bucket, prefix, visit);
}

Outcome<> Client::make_bucket(const std::string& bucket, BucketDurability durability, BucketEtags etags) const {
  OUT_TRY(impl_->usable());
  return impl_->retried_change([&] { return impl_->s3().make_bucket(bucket, durability, etags); });
}

Outcome<> Client::remove_bucket(const std::string& bucket) const {
  OUT_TRY(impl_->usable());
  return impl_->retried_change([&] { return impl_->s3().remove_bucket(bucket); });
}

Outcome<> Client::set_bound(const std::string& bucket, const BucketBound& bound) const {
  OUT_TRY(impl_->usable());
  return impl_->retried(true, [&] { return impl_->s3().set_bound(bucket, bound); });
}

Outcome<std::optional<BucketBound>> Client::bound(const std::string& bucket) const {
  OUT_TRY(impl_->usable());
  return impl_->retried(true, [&] { return impl_->s3().bound(bucket); });
}

Outcome<> Client::remove_bound(const std::string& bucket) const {
  OUT_TRY(impl_->usable());
  return impl_->retried(true, [&] { return impl_->s3().remove_bound(bucket); });
}

Outcome<std::vector<BucketInfo>> Client::buckets() const {
  OUT_TRY(impl_->usable());
  return impl_->retried(true, [&] { return impl_->s3().buckets(); });
}

std::future<Outcome<GetReply>> Client::get_async(std::string bucket, std::string key, Buffer into,
                                                 GetOptions options) const {
  auto promise = std::make_shared<std::promise<Outcome<GetReply>>>();
  auto future = promise->get_future();
  if (auto may = impl_->usable(); !may) {
    promise->set_value(std::unexpected(std::move(may).error()));
    return future;
  }
  impl_->get_async(
      std::move(bucket), std::move(key), std::move(into), std::move(options),
      [promise](Outcome<GetReply> got) { promise->set_value(std::move(got)); }, true);
  return future;
}

std::future<Outcome<PutReply>> Client::put_async(std::string bucket, std::string key, Buffer from,
                                                 PutOptions options) const {
  auto promise = std::make_shared<std::promise<Outcome<PutReply>>>();
  auto future = promise->get_future();
  if (auto may = impl_->usable(); !may) {
    promise->set_value(std::unexpected(std::move(may).error()));
    return future;
  }
  impl_->put_async(
      std::move(bucket), std::move(key), std::move(from), std::move(options),
      [promise](Outcome<PutReply> put) { promise->set_value(std::move(put)); }, true);
  return future;
}

void Client::get_async(std::string bucket, std::string key, Buffer into, GetOptions options,
                       Callback<GetReply> done) const {
  if (auto may = impl_->usable(); !may) return done(std::unexpected(std::move(may).error()));
  impl_->get_async(std::move(bucket), std::move(key), std::move(into), std::move(options), std::move(done), false);
}

void Client::put_async(std::string bucket, std::string key, Buffer from, PutOptions options,
                       Callback<PutReply> done) const {
  if (auto may = impl_->usable(); !may) return done(std::unexpected(std::move(may).error()));
  impl_->put_async(std::move(bucket), std::move(key), std::move(from), std::move(options), std::move(done), false);
}

Outcome<Transfer> Client::get_many(std::span<const BatchItem> items, std::span<const Buffer> windows,
                                   std::span<BatchResult> results, const BatchOptions& options) const {
  return impl_->many(Impl::Many::get, items, windows, results, options);
}

Outcome<Transfer> Client::head_many(std::span<const BatchItem> items, std::span<BatchResult> results,
                                    const BatchOptions& options) const {
  return impl_->many(Impl::Many::head, items, {}, results, {.in_order = {}, .lease = 0, .take = options.take});
}

Outcome<Transfer> Client::put_many(std::span<const BatchItem> items, std::span<const Buffer> windows,
                                   std::span<BatchResult> results) const {
  return impl_->many(Impl::Many::put, items, windows, results, {});
}

Outcome<Transfer> Client::remove_many(std::span<const BatchItem> items, std::span<BatchResult> results) const {
  return impl_->many(Impl::Many::remove, items, {}, results, {});
}

Outcome<ValuePage> Client::list_values(const std::string& bucket, const Buffer& into,
                                       const ValueOptions& options) const {
  if (into.on_device()) return fault(ErrorCode::unsupported, "a listing with values needs host memory");
  return impl_->list_values(bucket, options, into);
}

Outcome<MatchReply> Client::match(const std::string& bucket, const std::string& name_space,
                                  std::span<const std::byte> hashes, size_t width, std::span<const uint32_t> counts,
                                  const MatchOptions& options) const {
  return impl_->match({bucket, name_space, hashes, width, counts}, options);
}

Outcome<> Client::end_lease(uint64_t lease) const { return impl_->end_lease(lease); }

std::future<Outcome<Transfer>> Client::get_many_async(std::vector<BatchItem> items, std::vector<Buffer> windows,
                                                      std::span<BatchResult> results, BatchOptions options) const {
  return impl_->many_async(Impl::Many::get, std::move(items), std::move(windows), results, std::move(options));
}

std::future<Outcome<Transfer>> Client::head_many_async(std::vector<BatchItem> items,
                                                       std::span<BatchResult> results) const {
  return impl_->many_async(Impl::Many::head, std::move(items), {}, results, {});
}

std::future<Outcome<Transfer>> Client::put_many_async(std::vector<BatchItem> items, std::vector<Buffer> windows,
                                                      std::span<BatchResult> results) const {
  return impl_->many_async(Impl::Many::put, std::move(items), std::move(windows), results, {});
}

std::future<Outcome<Transfer>> Client::remove_many_async(std::vector<BatchItem> items,
                                                         std::span<BatchResult> results) const {
  return impl_->many_async(Impl::Many::remove, std::move(items), {}, results, {});
}

DeviceCounters Client::device_counters() const { return impl_->device_counters(); }

Via Client::preferred(uint64_t size) const {
  if (impl_->options().via != Via::automatic) return impl_->options().via;
  if (impl_->native_open()) return Via::native;
  return impl_->wants_token(size) ? Via::token : Via::http;
}

}  // namespace verbena
