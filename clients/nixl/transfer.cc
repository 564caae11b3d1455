#include "transfer.h"

#include <unistd.h>

#include <cstdio>
#include <exception>

namespace verbena::nixl {
namespace {

constexpr size_t told_max = 8;  // lines of one transfer

}  // namespace

Status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::no_such_bucket:
    case ErrorCode::no_such_key:
      return not_found;
    case ErrorCode::access_denied:
    case ErrorCode::unknown_access_key:
      return not_allowed;
    case ErrorCode::invalid_argument:
      return invalid_parameter;
    case ErrorCode::invalid_range:
    case ErrorCode::buffer_too_small:
    case ErrorCode::too_large:
      return mismatch;
    case ErrorCode::unsupported:
      return not_supported;
    case ErrorCode::connection_failed:
    case ErrorCode::timed_out:
      return remote_disconnect;
    case ErrorCode::cancelled:
      return cancelled;
    default:
      return backend_error;
  }
}

void complain(const std::string& text) {
  const std::string line = "verbena: nixl: " + text + "\n";
  std::fputs(line.c_str(), stderr);
}

std::expected<std::unique_ptr<Transfer>, Status> Transfer::prepare(Operation operation, const MetaList& local,
                                                                   const MetaList& remote, const std::string& bucket) {
  if (operation != read_op && operation != write_op) return std::unexpected(invalid_parameter);
  const bool is_memory = local.segment() == dram || local.segment() == vram;
  if (!is_memory || remote.segment() != object || local.size() != remote.size() || local.size() == 0) {
    return std::unexpected(invalid_parameter);
  }
  std::unique_ptr<Transfer> made(new Transfer(operation));
  for (size_t i = 0; i < local.size(); ++i) {
    const auto* memory = dynamic_cast<const LocalMemory*>(local[i].metadata);
    const bool is_its = memory != nullptr && memory->buffer.on_device() == (local.segment() == vram);
    const Status added = is_its ? made->add(i, local[i], *memory, remote[i], bucket) : invalid_parameter;
    if (added != success) return std::unexpected(added);
  }
  made->places_.clear();
  made->newest_.clear();
  made->written_.clear();
  return made;
}

// The batch and the number of the window for the next item in this memory. A batch has windows of one device.
std::pair<Transfer::Batch&, unsigned> Transfer::place_for(const LocalMemory& memory) {
  auto& [batch, window] = places_[&memory];
  if (batch == nullptr || batch->items.size() == batch_items_max) {
    Batch*& newest = newest_[memory.device];
    const bool has_room =
        newest != nullptr && newest->windows.size() < batch_windows_max && newest->items.size() < batch_items_max;
    if (!has_room) newest = &batches_.emplace_back();
    batch = newest;
    window = static_cast<unsigned>(batch->windows.size());
    batch->windows.push_back(memory.buffer);
  }
  return {*batch, window};
}

Status Transfer::add(size_t number, const Descriptor& local, const LocalMemory& memory, const MetaDescriptor& remote,
                     const std::string& bucket) {
  const auto* name = dynamic_cast<const ObjectKey*>(remote.metadata);
  if (name == nullptr || local.length == 0) return invalid_parameter;
  if (remote.length != local.length) return mismatch;
  const size_t offset = local.address - memory.address;
  if (local.address < memory.address || offset > memory.length || local.length > memory.length - offset) {
    return invalid_parameter;
  }
  if (operation_ == write_op && remote.address != 0) {
    complain("an object is written as a whole: there is no write at offset " + std::to_string(remote.address));
    return not_supported;
  }
  if (operation_ == write_op && !written_.insert(name->key).second) {
    complain(name->key + " is written twice in one transfer");
    return invalid_parameter;
  }
  auto [batch, window] = place_for(memory);
  BatchItem item{.bucket = bucket, .key = keys_.emplace_back(name->key)};
  item.offset = offset;
  item.size = local.length;
  item.window = window;
  if (operation_ == read_op) item.range = Range{.offset = remote.address, .length = local.length};
  batch.items.push_back(item);
  batch.descriptors.push_back(number);
  ++count_;
  return success;
}

Status Transfer::post(const Client& client) {
  if (check() == in_progress) return repost_active;
  status_ = in_progress;
  posted_by_ = ::getpid();
  told_ = 0;
  for (Batch& batch : batches_) {
    try {
      begin(batch, client);
    } catch (const std::exception& error) {
      std::promise<Outcome<verbena::Transfer>> failed;
      failed.set_value(std::unexpected(ClientError{.code = ErrorCode::local_error, .message = error.what()}));
      batch.done = failed.get_future();
    }
  }
  return in_progress;
}

void Transfer::begin(Batch& batch, const Client& client) {
  batch.results.assign(batch.items.size(), {});
  batch.done = operation_ == read_op ? client.get_many_async(batch.items, batch.windows, batch.results)
                                     : client.put_many_async(batch.items, batch.windows, batch.results);
}

void Transfer::tell(const std::string& key, size_t number, const std::string& why) {
  if (told_++ >= told_max) return;
  complain((operation_ == read_op ? "reading " : "writing ") + key + " (descriptor " + std::to_string(number) + " of " +
           std::to_string(count_) + "): " + why);
}

// The first failure of an ended batch.
Status Transfer::end(Batch& batch) {
  const auto outcome = batch.done.get();
  if (!outcome) {
    tell(std::string(batch.items.front().key), batch.descriptors.front(), outcome.error().message);
    return status_of(outcome.error().code);
  }
  Status first = success;
  for (size_t i = 0; i < batch.items.size(); ++i) {
    const BatchResult& result = batch.results[i];
    const bool is_short = !result.error && result.bytes != batch.items[i].size;
    if (!result.error && !is_short) continue;
    tell(std::string(batch.items[i].key), batch.descriptors[i],
         is_short ? "the object ends before this range" : std::string(to_string(*result.error)));
    if (first == success) first = is_short ? mismatch : status_of(*result.error);
  }
  return first;
}

Status Transfer::check() {
  if (status_ != in_progress) return status_;
  if (is_of_a_parent()) return status_ = backend_error;
  for (const Batch& batch : batches_) {
    if (batch.done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return in_progress;
  }
  Status first = success;
  for (Batch& batch : batches_) {
    const Status ended = end(batch);
    if (first == success) first = ended;
  }
  return status_ = first;
}

// A forked child has the transfer, but not the threads that end it.
bool Transfer::is_of_a_parent() const { return posted_by_ != 0 && posted_by_ != ::getpid(); }

Transfer::~Transfer() {
  if (is_of_a_parent()) return;
  for (const Batch& batch : batches_) {
    if (batch.done.valid()) batch.done.wait();
  }
}

}  // namespace verbena::nixl
