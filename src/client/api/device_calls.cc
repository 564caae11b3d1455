// Calls with a device's memory: what moves the bytes, the checks that the caller asked for, and what is counted.
#include <algorithm>
#include <map>

#include "client/api/client_impl.h"
#include "client/api/device_sums.h"
#include "client/http/object_headers.h"

namespace verbena {

using client::DeviceCopies;
using client::DeviceRange;
using client::fault;
using client::KnownChecksum;

namespace client {

DeviceVerified weaker(DeviceVerified a, DeviceVerified b) { return std::max(a, b); }

namespace {

// Of exactly the bytes that a GET has brought, as its reply has it.
std::optional<KnownChecksum> told(const GetReply& got, bool whole) {
  const auto& said = got.info.headers;
  const auto moved = said.find("x-amz-rdma-bytes-transferred");
  // A longer object comes in several replies, each of which tells that of its own bytes.
  if (got.transfer.door == Via::token && moved != said.end() && moved->second == std::to_string(got.bytes)) {
    // The two that TokenDoor asks for.
    const std::pair<const char*, Algorithm> sums[] = {{"x-amz-rdma-checksum-crc32c", Algorithm::crc32c},
                                                      {"x-amz-rdma-checksum-crc64nvme", Algorithm::crc64nvme}};
    for (const auto& [name, algorithm] : sums) {
      if (const auto sum = said.find(name); sum != said.end()) return KnownChecksum{algorithm, sum->second};
    }
  }
  if (!whole) return std::nullopt;
  const auto known = parse_checksum(got.info.checksum);
  return known ? std::optional(*known) : std::nullopt;
}

DeviceRange range_of(const Buffer& window, size_t offset, uint64_t size) {
  return {reinterpret_cast<uintptr_t>(window.data()) + offset, size};
}

template <class Reply>
Outcome<Transfer> transfer_of(const Outcome<Reply>& reply) {
  if (!reply) return std::unexpected(reply.error());
  return reply->transfer;
}

std::unexpected<ClientError> mismatch() {
  return fault(ErrorCode::checksum_mismatch, "the bytes on the device do not match the object's checksum");
}

}  // namespace
}  // namespace client

DeviceCounters Client::Impl::device_counters() const { return device_counts_.now(); }

Outcome<client::DeviceSums> Client::Impl::sums_of(const Buffer& window, Algorithm algorithm,
                                                  std::span<const DeviceRange> ranges, const std::stop_token& stop,
                                                  bool after_stream) {
  OUT_ASSIGN(auto lane, device_lane(window, stop));
  DeviceCopies copies(*lanes_, std::move(lane), options_.operation_timeout);
  if (after_stream) OUT_TRY(copies.after(*window.memory_->device, stop));
  OUT_ASSIGN(auto sums, client::device_sums(copies, algorithm, ranges, stop));
  OUT_TRY(copies.finish());
  return sums;
}

Outcome<DeviceVerified> Client::Impl::verify_get(const std::string& bucket, const std::string& key, const Buffer& into,
                                                 const GetOptions& options, const GetReply& got) {
  const bool whole = got.bytes == got.info.size && (!options.range || options.range->offset == 0);
  std::optional<KnownChecksum> known = client::told(got, whole);
  if (!known && whole) {
    const HeadOptions look{.version_id = options.version_id, .cancel = options.cancel};
    const auto info = head(bucket, key, look);
    if (!info && info.error().code == ErrorCode::cancelled) return std::unexpected(info.error());
    const bool same = info && !info->etag.empty() && info->etag == got.info.etag && info->size == got.info.size;
    if (const auto parsed = same ? client::parse_checksum(info->checksum) : std::unexpected(ClientError()); parsed) {
      known = *parsed;
    }
  }
  if (!known) {
    device_counts_.verified(DeviceVerified::no_checksum, 0);
    return DeviceVerified::no_checksum;
  }
  const DeviceRange range = client::range_of(into, 0, got.bytes);
  OUT_ASSIGN(const auto sums, sums_of(into, known->algorithm, {&range, 1}, options.cancel, false));
  device_counts_.verified(sums.by, sums.read_back_bytes);
  if (sums.base64.front() == known->base64) return sums.by;
  device_counts_.mismatch();
  return client::mismatch();
}

Outcome<GetReply> Client::Impl::device_get(const std::string& bucket, const std::string& key, const Buffer& into,
                                           const GetOptions& options) {
  auto got = get_to_device(bucket, key, into, options);
  if (got && options.verify_device && into.size() != 0) {
    auto verified = verify_get(bucket, key, into, options, *got);
    if (verified) {
      got->transfer.device_verified = *verified;
    } else {
      got = std::unexpected(std::move(verified).error());
    }
  }
  device_counts_.ended(client::transfer_of(got));
  return got;
}

Outcome<PutReply> Client::Impl::verified_put(const std::string& bucket, const std::string& key, const Buffer& from,
                                             const PutOptions& options) {
  if (!options.verify_device || !options.checksum.empty() || from.size() == 0) {
    return put_from_device(bucket, key, from, options);
  }
  const DeviceRange range = client::range_of(from, 0, from.size());
  OUT_ASSIGN(const auto sums, sums_of(from, Algorithm::crc32c, {&range, 1}, options.cancel, true));
  device_counts_.verified(sums.by, sums.read_back_bytes);
  PutOptions checked = options;
  checked.checksum = "CRC32C:" + sums.base64.front();
  auto put = put_from_device(bucket, key, from, checked);
  if (put) put->transfer.device_verified = sums.by;
  if (!put && put.error().code == ErrorCode::checksum_mismatch) device_counts_.mismatch();
  return put;
}

Outcome<PutReply> Client::Impl::device_put(const std::string& bucket, const std::string& key, const Buffer& from,
                                           const PutOptions& options) {
  auto put = verified_put(bucket, key, from, options);
  device_counts_.ended(client::transfer_of(put));
  return put;
}

// Items by the algorithm of their checksum, each of those in one go.
Outcome<> Client::Impl::verify_many(std::span<const BatchItem> items, std::span<const Buffer> windows,
                                    std::span<BatchResult> results, Transfer& transfer) {
  struct Group {
    std::vector<size_t> numbers;
    std::vector<DeviceRange> ranges;
    std::vector<std::string> base64;
  };
  std::map<Algorithm, Group> groups;
  std::optional<ClientError> failure;  // the items of its group have it
  for (size_t i = 0; i < items.size(); ++i) {
    const Buffer& window = windows[items[i].window];
    if (results[i].error || !window.on_device()) continue;
    const auto known = client::parse_checksum(results[i].checksum);
    if (!known || items[i].range || results[i].bytes != results[i].size) {
      results[i].device_verified = DeviceVerified::no_checksum;
      transfer.device_verified = DeviceVerified::no_checksum;
      device_counts_.verified(DeviceVerified::no_checksum, 0);
      continue;
    }
    Group& group = groups[known->algorithm];
    group.numbers.push_back(i);
    group.ranges.push_back(client::range_of(window, items[i].offset, results[i].bytes));
    group.base64.push_back(known->base64);
  }
  for (const auto& [algorithm, group] : groups) {
    const Buffer& window = windows[items[group.numbers.front()].window];
    const auto sums = sums_of(window, algorithm, group.ranges, {}, false);
    if (!sums) {
      for (const size_t number : group.numbers) results[number].error = sums.error().code;
      if (!failure) failure = sums.error();
      continue;
    }
    for (size_t i = 0; i < group.numbers.size(); ++i) {
      BatchResult& result = results[group.numbers[i]];
      result.device_verified = sums->by;
      device_counts_.verified(sums->by, sums->by == DeviceVerified::read_back ? group.ranges[i].size : 0);
      if (sums->base64[i] == group.base64[i]) continue;
      device_counts_.mismatch();
      result.error = ErrorCode::checksum_mismatch;
      transfer.bytes -= result.bytes;
    }
    transfer.device_verified = client::weaker(transfer.device_verified, sums->by);
  }
  if (failure) return std::unexpected(std::move(*failure));
  return {};
}

Outcome<Transfer> Client::Impl::device_many(Many what, std::span<const BatchItem> items,
                                            std::span<const Buffer> windows, std::span<BatchResult> results,
                                            const BatchOptions& options) {
  auto moved = many_on_device(what, items, windows, results, options);
  if (moved && what == Many::get && options.verify_device) {
    if (auto verified = verify_many(items, windows, results, *moved); !verified) {
      moved = std::unexpected(std::move(verified).error());
    }
  }
  device_counts_.ended(moved);
  return moved;
}

}  // namespace verbena
