#include "client/token/token_door.h"

#include <charconv>

#include "fabric/ofi/ofi.h"
#include "rdma/sealing.h"
#include "rdma/token.h"

namespace verbena::client {
namespace {

constexpr size_t links_max = 8;  // one loan each at a time; more callers wait
// A sealed window is memory of its own, as large as the caller's.
constexpr size_t sealed_size_max = 64 * MiB;
static_assert(sealed_size_max <= fabric::sealed::transfer_size_max);

std::optional<uint64_t> decimal(std::optional<std::string_view> text) {
  uint64_t value = 0;
  if (!text || text->empty()) return std::nullopt;
  auto [end, ec] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (ec != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return value;
}

std::string declined(const net::HttpReply& reply) {
  const auto why = reply.header("x-verbena-rdma-declined");
  return "the server declined the token" + (why ? " (" + std::string(why->substr(0, 200)) + ")" : std::string());
}

// The server says that it has moved the bytes, so that none is on its way any more.
bool confirms(const net::HttpReply& reply) {
  const auto said = reply.header("x-amz-rdma-reply");
  return said == "200" || said == "206" || said == "204";
}

// A proxy's error has no code of S3, and says nothing about the server's operations.
bool is_servers(const ClientError& error) { return error.http_status < 500 || !error.s3_code.empty(); }

// The server says why it has not tried.
bool declines(const net::HttpReply& reply) {
  const auto why = reply.header("x-verbena-rdma-declined");
  return why && why != "token: the transfer failed";
}

// Whether operations on the window may still be under way although the call has ended. On tcp, bytes of a write that
// the server has given up are in the kernels' buffers. Answers below 500 without the object come before the first of
// them.
bool may_go_on(const Outcome<net::HttpReply>& reply, fabric::Access access, bool tcp, bool sealed) {
  const int status = reply ? reply->status : reply.error().http_status;
  if (status == 0 || (tcp && sealed)) return true;
  if (!tcp) return false;
  if (access == fabric::Access::server_reads) return !reply && !is_servers(reply.error());
  return reply ? !confirms(*reply) && !declines(*reply) : status >= 500;
}

// "bytes 5-9/100" -> 5
std::optional<uint64_t> range_length(std::optional<std::string_view> content_range) {
  if (!content_range || !content_range->starts_with("bytes ")) return std::nullopt;
  const std::string_view text = content_range->substr(6);
  const size_t dash = text.find('-'), slash = text.find('/');
  if (dash == text.npos || slash == text.npos || dash > slash) return std::nullopt;
  const auto first = decimal(text.substr(0, dash)), last = decimal(text.substr(dash + 1, slash - dash - 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return *last - *first + 1;
}

}  // namespace

TokenDoor::TokenDoor(S3Http& s3, std::string provider, bool seals, std::chrono::milliseconds take_timeout)
    : s3_(s3),
      wanted_provider_(provider == "local" || provider.empty() ? "auto" : std::move(provider)),
      seals_(seals),
      take_timeout_(take_timeout) {}

std::string TokenDoor::provider() const {
  std::lock_guard lock(mutex_);
  return provider_;
}

bool TokenDoor::takes(uint64_t size) const { return !seals_ || size <= sealed_size_max; }

Outcome<> TokenDoor::open() {
  OUT_ASSIGN(auto link, take({}));
  give_back(std::move(link));
  return {};
}

bool TokenDoor::reaches_devices(const std::stop_token& stop) {
  if (seals_) return false;
  {
    std::lock_guard lock(mutex_);
    if (reaches_devices_) return *reaches_devices_;
  }
  auto link = take(stop);
  if (!link) return false;
  const bool reaches = (*link)->reaches_devices();
  give_back(std::move(*link));
  return reaches;
}

Outcome<std::unique_ptr<WindowLink>> TokenDoor::open_link() {
  fabric::ofi::Options options;
  options.provider = wanted_provider_;
  options.device_memory = !seals_ && memory::cuda::Driver::may_be_there();
  if (std::string local = s3_.http().local_address(); !local.empty()) options.bind_address = std::move(local);
  // Most machines have no such device: worth a reason in the reply, but no line in the log.
  if (wanted_provider_ == "verbs" && !fabric::ofi::available(options)) {
    return fault(ErrorCode::unsupported, "token: no RDMA device here");
  }
  auto link = fabric::ofi::connect(options, {});
  if (!link) return fault(link.error(), "token");
  return std::make_unique<WindowLink>(std::move(*link));
}

Outcome<std::unique_ptr<WindowLink>> TokenDoor::take(const std::stop_token& stop) {
  {
    std::unique_lock lock(mutex_);
    const auto is_free = [this] { return !idle_.empty() || open_links_ < links_max; };
    if (!returned_.wait_until(lock, stop, deadline_in(take_timeout_), is_free)) {
      if (stop.stop_requested()) return fault(ErrorCode::cancelled, "cancelled by the caller");
      return fault(ErrorCode::connection_failed, "token: every endpoint was in use for as long as a request may take");
    }
    if (!idle_.empty()) {
      auto link = std::move(idle_.back());
      idle_.pop_back();
      return link;
    }
    ++open_links_;
  }
  auto link = open_link();
  std::lock_guard lock(mutex_);
  if (link) {
    provider_ = (*link)->provider();
    if (!reaches_devices_) reaches_devices_ = (*link)->reaches_devices();
  } else {
    --open_links_;
    returned_.notify_one();
  }
  return link;
}

void TokenDoor::give_back(std::unique_ptr<WindowLink> link) {
  std::lock_guard lock(mutex_);
  if (link) {
    idle_.push_back(std::move(link));
  } else {
    --open_links_;
  }
  returned_.notify_one();
}

Outcome<std::unique_ptr<SealedWindow>> TokenDoor::sealed_window(size_t length) const {
  if (!seals_) return nullptr;
  if (!takes(length)) return fault(ErrorCode::unsupported, "token: too large to be sealed at once");
  return std::make_unique<SealedWindow>(length);
}

Outcome<net::HttpReply> TokenDoor::call_with_window(S3Call call, MutableBytes window, const PeerWindow* device,
                                                    fabric::Access access, SealedWindow* sealed,
                                                    fabric::WindowDescriptor& lent) {
  OUT_ASSIGN(auto link, take(call.stop));
  auto window_lent = link->lend(sealed == nullptr ? window : sealed->memory(), access, device);
  if (!window_lent) {
    give_back(std::move(link));
    ClientError error = from_error(window_lent.error(), "token: lend");
    // This memory cannot be lent. The body can still carry the host's; of a device's that says nothing of the host's.
    error.code = device == nullptr ? ErrorCode::unsupported : ErrorCode::invalid_argument;
    return std::unexpected(std::move(error));
  }
  lent = (*window_lent)->descriptor();
  rdma::Token token;
  token.form = sealed == nullptr ? rdma::TokenForm::ofi1 : rdma::TokenForm::ofi1_sealed;
  if (sealed != nullptr) {
    if (access == fabric::Access::server_reads) sealed->seal(window, lent);
    call.headers.emplace_back(rdma::sealing_header, sealed->header());
    if (access == fabric::Access::server_reads)
      call.headers.emplace_back("x-amz-rdma-bytes", std::to_string(window.size()));
  }
  token.provider = link->provider();
  token.endpoint_name = link->address();
  token.base = lent.base;
  token.size = lent.size;
  token.key = lent.key;
  call.headers.emplace_back("x-amz-rdma-token", rdma::format_token(token));
  // A checksum of the transferred bytes, which the server has already when the object has it, or the PUT announces it:
  // CRC32C of what this library stores, CRC64NVME, which need not be named, of what others do.
  const bool is_put = access == fabric::Access::server_reads;
  if (device == nullptr && (is_put || !objects_have_crc64_))
    call.headers.emplace_back("x-amz-rdma-checksum-algorithm", "CRC32C");
  // A dead kept connection is detected by the retry, which has a window of its own.
  call.replayable = false;
  call.meanwhile = link.get();
  auto reply = s3_.call(call);
  // The window is withdrawn before the outcome is returned, even if the server never answered. Nor is it known whether
  // a machine on the path has begun to write to a sealed one: tcp looks a key up when a write begins.
  const bool doubtful = may_go_on(reply, access, link->provider() == "tcp", sealed != nullptr);
  if (doubtful) (*window_lent)->revoke();
  window_lent->reset();
  if (doubtful) link.reset();  // the server's connection to this endpoint ends with it
  give_back(std::move(link));
  return reply;
}

Outcome<GetReply> TokenDoor::get(const std::string& bucket, const std::string& key, MutableBytes into,
                                 const GetOptions& options, const PeerWindow* device) {
  if (device != nullptr && seals_) return fault(ErrorCode::unsupported, "token: what is sealed passes a CPU");
  S3Call call{.method = "GET", .bucket = bucket, .key = key, .headers = get_headers(options)};
  call.into = device == nullptr ? into : MutableBytes();
  call.status_suffices = device != nullptr;  // a body with a byte finds no room, and its head says why there is one
  if (!options.version_id.empty()) call.query.emplace_back("versionId", options.version_id);
  call.stop = options.cancel;
  const bool verify = s3_.options().verify_checksums && !options.range && device == nullptr;
  if (verify) call.headers.emplace_back("x-amz-checksum-mode", "ENABLED");
  if (device != nullptr && options.verify_device) call.headers.emplace_back("x-amz-rdma-checksum-algorithm", "CRC32C");
  MutableBytes window = into;
  if (options.range && options.range->length > 0 && options.range->length < into.size()) {
    window = into.first(options.range->length);
  }
  OUT_ASSIGN(const auto sealed, sealed_window(window.size()));
  fabric::WindowDescriptor lent;
  auto called = call_with_window(std::move(call), window, device, fabric::Access::server_writes, sealed.get(), lent);
  if (!called) {
    if (called.error().s3_code == "InvalidRDMAToken") called.error().code = ErrorCode::unsupported;
    return std::unexpected(std::move(called).error());
  }
  const net::HttpReply& reply = *called;
  const auto said = reply.header("x-amz-rdma-reply");
  GetReply out;
  out.info = object_info(reply, key);
  if (confirms(reply)) {
    knowledge_ = Knowledge::yes;
    const auto moved = decimal(reply.header("x-amz-rdma-bytes-transferred"));
    const uint64_t bytes = said == "204" ? 0 : moved.value_or(UINT64_MAX);
    const bool has_body = device == nullptr ? reply.body_bytes != 0 : reply.content_length.value_or(0) != 0;
    if (has_body || bytes > window.size()) {
      return fault(ErrorCode::malformed_reply, "token: the server's reply does not say what it transferred");
    }
    if (sealed) {
      const auto salt = rdma::parse_sealed(reply.header(rdma::sealed_header).value_or(""));
      if (!salt) return fault(ErrorCode::malformed_reply, "token: the server does not say that it sealed the bytes");
      if (!sealed->open(into.first(bytes), *salt, lent))
        return fault(ErrorCode::malformed_reply, "token: what arrived was forged or changed on its way");
    }
    if (options.range && range_length(reply.header("content-range")) != bytes) {
      return fault(ErrorCode::malformed_reply, "token: the server transferred another range");
    }
    if (!options.range) out.info.size = bytes;
    if (const auto known = checksum_of(reply)) objects_have_crc64_ = known->algorithm == Algorithm::crc64nvme;
    out.bytes = bytes;
    out.transfer.door = Via::token;
    out.transfer.provider = provider();
  } else {
    knowledge_ = said ? Knowledge::yes : Knowledge::no;
    out.bytes = reply.body_bytes;
    out.transfer.door = Via::http;
    out.transfer.provider = s3_.provider();
    out.transfer.fell_back_reason = said ? declined(reply) : "the server does not know tokens";
  }
  if (options.range && reply.status != 206) return fault(ErrorCode::malformed_reply, "the server ignored the range");
  if (device != nullptr && out.transfer.door == Via::http && reply.content_length != 0) {
    if (reply.content_length.value_or(0) > into.size()) {
      return fault(ErrorCode::buffer_too_small,
                   "the object does not fit the buffer of " + std::to_string(into.size()) + " bytes");
    }
    return fault(ErrorCode::unsupported, out.transfer.fell_back_reason);
  }
  if (verify && !matches(checksum_of(reply), Bytes(into).first(out.bytes))) {
    return fault(ErrorCode::checksum_mismatch, "the bytes that arrived do not match the object's checksum");
  }
  out.transfer.bytes = out.bytes;
  return out;
}

Outcome<std::optional<net::HttpReply>> TokenDoor::put(S3Call call, Bytes from, const KnownChecksum& checksum,
                                                      bool md5_etag, std::string& reason, const PeerWindow* device) {
  if (device != nullptr && seals_) {
    reason = "token: what is sealed passes a CPU";
    return std::optional<net::HttpReply>();
  }
  const std::string name = checksum_header(checksum.algorithm);
  if (md5_etag) call.headers.emplace_back("x-verbena-etag", "MD5");
  call.unsigned_payload = true;
  std::erase_if(call.headers, [](const auto& header) { return header.first.starts_with("x-amz-checksum-"); });
  if (!checksum.base64.empty()) call.headers.emplace_back(name, checksum.base64);
  // The server only reads this window (server_reads); the cast does not make it writable.
  const MutableBytes window(const_cast<std::byte*>(from.data()), from.size());
  auto sealed = sealed_window(window.size());
  if (!sealed) {
    reason = sealed.error().message;
    return std::optional<net::HttpReply>();
  }
  fabric::WindowDescriptor lent;
  auto reply = call_with_window(std::move(call), window, device, fabric::Access::server_reads, sealed->get(), lent);
  if (!reply) {
    const std::string& code = reply.error().s3_code;
    if (code == "RDMANotSupported" || code == "RDMATransferFailed") knowledge_ = Knowledge::yes;
    if (code == "RDMATransferFailed" || code == "InvalidRDMAToken" || reply.error().code == ErrorCode::unsupported) {
      reason = (code == "RDMANotSupported" ? "the server declined the token: " : "token: ") + reply.error().message;
      return std::optional<net::HttpReply>();
    }
    return std::unexpected(std::move(reply).error());
  }
  const auto said = reply->header("x-amz-rdma-reply");
  const bool as_asked = *sealed == nullptr || reply->header(rdma::sealed_header);
  const bool same = checksum.base64.empty() || reply->header(name) == std::string_view(checksum.base64);
  if (said == "200" && as_asked && same) {
    knowledge_ = Knowledge::yes;
    return std::optional<net::HttpReply>(std::move(*reply));
  }
  if (!said) {
    knowledge_ = Knowledge::no;
    return fault(ErrorCode::outcome_unknown, "the server does not know tokens");
  }
  if (said == "200") return fault(ErrorCode::outcome_unknown, "token: the server did not confirm the checksum");
  knowledge_ = Knowledge::yes;
  reason = declined(*reply);
  return std::optional<net::HttpReply>();
}

}  // namespace verbena::client
