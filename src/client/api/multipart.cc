// Large PUTs in parts, several at once: each by token where that works, else by HTTP.
#include <algorithm>
#include <vector>

#include "base/checksum.h"
#include "client/api/client_impl.h"
#include "client/helpers.h"

namespace verbena {

using client::fault;

namespace {

constexpr std::chrono::milliseconds abort_after_cancel{500};  // a cancelled call does not wait long for a frozen server

struct SentPart {
  client::CompletedPart part;
  uint32_t crc32c = 0;
  uint64_t size = 0;
  Transfer transfer;
};

}  // namespace

struct Client::Impl::Upload {
  std::string bucket, key, id;
  std::stop_token stop;
  std::mutex mutex;
  std::vector<SentPart> sent;
  std::optional<ClientError> failure;
};

Outcome<PutReply> Client::Impl::put_part_once(const client::UploadPart& part) {
  std::string reason;
  client::Doubt doubt;
  if (wants_token(part.from.size())) {
    auto reply = send_by_token(client::part_call(part), part.from, part.checksum, part.md5_etag, reason);
    if (reply && *reply) {
      PutReply put = client::put_reply(**reply);
      if (put.etag.empty()) return fault(ErrorCode::malformed_reply, "the server acknowledged a part without an ETag");
      put.transfer.door = Via::token;
      put.transfer.provider = token_->provider();
      return put;
    }
    if (part.stop.stop_requested()) return fault(ErrorCode::cancelled, "cancelled by the caller");
    if (options_.via == Via::token) {
      return reply ? fault(ErrorCode::unsupported, reason) : std::unexpected(std::move(reply).error());
    }
    if (!reply) {
      // A part is the same however often it is sent: the body may carry it after any failure but the request's own.
      if (!client::get_may_fall_back(reply.error()) && reply.error().code != ErrorCode::slow_down) {
        return std::unexpected(std::move(reply).error());
      }
      doubt.after(reply.error());
      reason = reply.error().message;
    }
  }
  auto put = s3_->put_part(part);
  if (!put) return std::unexpected(doubt.about(std::move(put).error()));
  put->transfer.door = Via::http;
  put->transfer.provider = s3_->provider();
  put->transfer.fell_back_reason = reason;
  return put;
}

Outcome<PutReply> Client::Impl::put_part(const client::UploadPart& part) {
  OUT_TRY(usable());
  if (options_.via == Via::native) return fault(ErrorCode::unsupported, "the native door has no parts of uploads");
  if (part.stop.stop_requested()) return fault(ErrorCode::cancelled, "cancelled by the caller");
  unsigned attempts = 0;
  const auto once = [&] { return put_part_once(part); };
  auto put = client::with_retries_of_change(retry_, true, attempts, once, part.stop);
  if (!put && part.stop.stop_requested()) return fault(ErrorCode::cancelled, "cancelled by the caller");
  if (!put) return put;
  put->transfer.bytes = part.from.size();
  put->transfer.attempts = attempts;
  return put;
}

// Completes the upload: parts in order, checksums combined. A failed upload is aborted to free the server's space.
Outcome<PutReply> Client::Impl::finish_upload(Upload& upload, const PutOptions& options) {
  std::ranges::sort(upload.sent, {}, [](const SentPart& sent) { return sent.part.number; });
  std::vector<client::CompletedPart> parts;
  uint32_t whole = 0;
  Transfer transfer;
  transfer.door = Via::token;
  for (SentPart& sent : upload.sent) {
    whole = parts.empty() ? sent.crc32c : crc32c_combine(whole, sent.crc32c, sent.size);
    transfer.bytes += sent.size;
    if (parts.empty() || sent.transfer.door == Via::http) {
      transfer.door = sent.transfer.door;
      transfer.provider = sent.transfer.provider;
    }
    if (!sent.transfer.fell_back_reason.empty()) transfer.fell_back_reason = sent.transfer.fell_back_reason;
    parts.push_back(std::move(sent.part));
  }
  unsigned attempts = 0;
  Outcome<PutReply> done = client::with_retries_of_change(
      retry_, false, attempts,
      [&]() -> Outcome<PutReply> {
        if (upload.failure) return std::unexpected(*upload.failure);
        return s3_->complete_upload(upload.bucket, upload.key, upload.id, parts, whole, options);
      },
      upload.stop);
  if (!done) {
    const bool is_cancelled = upload.stop.stop_requested();
    if (is_cancelled) done = fault(ErrorCode::cancelled, "cancelled by the caller");
    // Abort even if the completion may have happened: the abort is then harmless (no such upload).
    const auto within = is_cancelled ? std::optional(abort_after_cancel) : std::nullopt;
    if (auto aborted = s3_->abort_upload(upload.bucket, upload.key, upload.id, within); !aborted) {
      done.error().message += " (and the unfinished upload could not be aborted)";
    }
    return done;
  }
  done->transfer = std::move(transfer);
  return done;
}

Outcome<PutReply> Client::Impl::run_upload(const std::string& bucket, const std::string& key,
                                           const std::function<unsigned()>& at_once, const NextPart& next,
                                           const PutOptions& options) {
  Upload upload{bucket, key, {}, options.cancel, {}, {}, {}};
  // Repeating is safe: a surplus upload is one that is never completed.
  unsigned creations = 0;
  const auto create = [&] { return s3_->create_upload(bucket, key, options); };
  auto created = client::with_retries(retry_, true, creations, create, upload.stop);
  if (!created && upload.stop.stop_requested()) return fault(ErrorCode::cancelled, "cancelled by the caller");
  OUT_ASSIGN(upload.id, std::move(created));

  std::mutex source;  // `next` is called by one thread at a time, in order
  int next_number = 1;
  unsigned working = 0;  // threads, under `source`
  const auto fail_upload = [&upload](ClientError error) {
    std::lock_guard lock(upload.mutex);
    if (!upload.failure) upload.failure = std::move(error);
  };
  const auto work = [&] {
    bool is_new = true;
    for (Piece piece;;) {
      int number = 0;
      {
        std::lock_guard reading(source);
        if (std::exchange(is_new, false)) ++working;
        if (working > at_once()) {
          --working;  // the others do the rest
          return;
        }
        {
          std::lock_guard lock(upload.mutex);
          if (upload.failure) return;
          if (upload.stop.stop_requested()) {
            upload.failure = fault(ErrorCode::cancelled, "cancelled by the caller").error();
            return;
          }
        }
        auto more = next(piece);
        if (!more) return fail_upload(std::move(more).error());
        if (!*more) return;
        number = next_number++;
      }
      if (number > static_cast<int>(client::parts_max)) {
        return fail_upload({ErrorCode::too_large, "more than 10000 parts", {}, 0, {}});
      }
      SentPart sent;
      sent.crc32c = crc32c(piece.bytes);
      sent.size = piece.bytes.size();
      const std::string checksum = client::crc32c_base64(sent.crc32c);
      const client::UploadPart part{.bucket = bucket,
                                    .key = key,
                                    .upload_id = upload.id,
                                    .number = number,
                                    .from = piece.bytes,
                                    .checksum = {Algorithm::crc32c, checksum},
                                    .md5_etag = options.md5_etag,
                                    .stop = upload.stop};
      unsigned attempts = 0;
      const auto once = [&] { return put_part_once(part); };
      auto put = client::with_retries_of_change(retry_, true, attempts, once, part.stop);
      if (!put) return fail_upload(std::move(put).error());
      sent.transfer = std::move(put->transfer);
      sent.part = {number, std::move(put->etag), checksum};
      std::lock_guard lock(upload.mutex);
      upload.sent.push_back(std::move(sent));
    }
  };
  auto helpers = client::start_helpers(at_once() - 1, work);
  work();
  helpers.clear();
  return finish_upload(upload, options);
}

Outcome<PutReply> Client::Impl::put_parts(const std::string& bucket, const std::string& key, Bytes from,
                                          const PutOptions& options) {
  if (!options.checksum.empty()) {  // each part has its own; the whole object's is checked here
    OUT_ASSIGN(const client::KnownChecksum given, client::parse_checksum(options.checksum));
    if (!client::matches(given, from)) {
      return fault(ErrorCode::checksum_mismatch, "the bytes do not have the checksum that was given");
    }
  }
  const uint64_t part_size = client::part_size_for(options_.part_size, from.size());
  const uint64_t parts = (from.size() + part_size - 1) / part_size;
  Bytes left = from;
  const NextPart next = [&](Piece& piece) -> Outcome<bool> {
    piece.bytes = left.first(std::min<uint64_t>(part_size, left.size()));
    left = left.subspan(piece.bytes.size());
    return !piece.bytes.empty();
  };
  const auto at_once = static_cast<unsigned>(std::min<uint64_t>(options_.parts_in_flight, parts));
  return run_upload(bucket, key, [at_once] { return at_once; }, next, options);
}

namespace {

// Fills `into` up to `size_max` bytes, growing with the source. True at the source's end.
Outcome<bool> read_up_to(const Reader& from, uint64_t size_max, std::vector<std::byte>& into) {
  into.clear();
  for (uint64_t step = MiB; into.size() < size_max; step *= 2) {
    const size_t begin = into.size();
    into.resize(std::min<uint64_t>(size_max, begin + step));
    OUT_ASSIGN(const size_t n, from(std::span(into).subspan(begin)));
    if (n > into.size() - begin) return fault(ErrorCode::invalid_argument, "the reader returned more than was asked");
    if (n < into.size() - begin) {
      into.resize(begin + n);
      return true;
    }
  }
  return false;
}

}  // namespace

Outcome<PutReply> Client::Impl::put_stream(const std::string& bucket, const std::string& key, const Reader& from,
                                           const PutOptions& options) {
  // The native door takes an object in one piece, held in memory, so only small ones go there by choice.
  const bool native_only = options_.via == Via::native;
  const uint64_t whole_max = native_only ? client::put_size_max : std::max(options_.multipart_threshold, MiB);
  std::vector<std::byte> first;
  OUT_ASSIGN(const bool ended, read_up_to(from, whole_max, first));
  if (ended) return put(bucket, key, {first, nullptr}, options);
  if (native_only) return fault(ErrorCode::too_large, "the native door takes up to 5 GiB from a stream");
  if (options.append_at) return fault(ErrorCode::unsupported, "a stream is appended up to multipart_threshold");
  flush_appends(bucket, key);
  if (!options.checksum.empty()) {
    return fault(ErrorCode::unsupported, "a checksum given beforehand is checked of streams up to multipart_threshold");
  }

  Bytes left = first;  // bytes that were read already go first
  bool at_end = false;
  client::PartSizes sizes(options_.part_size, options.stream_size);
  const NextPart next = [&](Piece& piece) -> Outcome<bool> {
    if (at_end) return false;
    piece.own.clear();
    const uint64_t part_size = sizes.next();
    if (left.size() >= part_size) {
      piece.bytes = left.first(part_size);
      left = left.subspan(piece.bytes.size());
      return true;
    }
    OUT_ASSIGN(at_end, read_up_to(from, part_size - left.size(), piece.own));
    piece.own.insert(piece.own.begin(), left.begin(), left.end());
    left = {};
    piece.bytes = piece.own;
    return !piece.bytes.empty();
  };
  const auto at_once = [&] { return sizes.at_once(options_.parts_in_flight); };
  return run_upload(bucket, key, at_once, next, options);
}

}  // namespace verbena
