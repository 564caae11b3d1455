// Multipart uploads. One client at a time works on one, so what it may have is known without a history of its own.
#include <fmt/format.h>

#include <algorithm>

#include "memory/text_source.h"
#include "simulator/scheduler.h"
#include "simulator/server.h"

namespace verbena::simulator {

void World::act_on_upload(Loop& loop, Bucket& bucket, uint32_t key) {
  constexpr size_t uploads_max = 6;
  const auto free = std::ranges::find_if(
      uploads_, [&](const Upload& upload) { return &upload.bucket == &bucket && upload.key == key && !upload.busy; });
  if (free == uploads_.end()) {
    const auto open = std::ranges::count_if(uploads_, [&](const Upload& upload) { return &upload.bucket == &bucket; });
    if (static_cast<size_t>(open) < uploads_max) begin_upload(loop, bucket, key);
    return;
  }
  Upload& upload = *free;
  upload.busy = true;
  const uint64_t choice = draw(8);
  if (choice < 4 || upload.parts.empty()) {
    put_part(loop, upload);
  } else if (choice < 5) {
    list_parts(loop, upload);
  } else if (choice < 7) {
    complete(loop, upload);
  } else {
    abort(loop, upload);
  }
  upload.busy = false;
  if (upload.id.empty()) uploads_.erase(free);
}

void World::begin_upload(Loop& loop, Bucket& bucket, uint32_t key) {
  int64_t begun_ns = earliest_ns();
  const auto noted = begins_.insert(begins_.end(), &begun_ns);
  ++clock_;
  s3::Headers headers;
  if (draw(4) == 0) headers.emplace_back("x-amz-server-side-encryption", "AES256");
  const Reply reply =
      ask(loop, "POST", fmt::format("/{}/{}?uploads", bucket.name, bucket.history.model().key(key)), headers);
  begins_.erase(noted);
  if (!reply.ok()) return note_failure("an upload's begin", reply, bucket, key);
  uploads_.push_back({bucket, key, reply.element("UploadId"), begun_ns});
  uploads_.back().busy = false;
}

// Told as unknown: a rule may have aborted it. Whatever else became of it, it is not used again.
bool World::is_gone(Upload& upload, const Reply& reply) {
  if (reply.code != "NoSuchUpload") return false;
  const std::string& key = upload.bucket.history.model().key(upload.key);
  if (!upload.bucket.book.may_abort({.key = key}, upload.begun_ns, latest_ns())) {
    fail_with(fmt::format("upload {} of {}/{} has gone; no rule aborts it", upload.id, upload.bucket.name, key));
  }
  upload.id.clear();
  return true;
}

void World::put_part(Loop& loop, Upload& upload) {
  constexpr size_t sizes[] = {8, 300, 5000, 70'000};
  const uint32_t value = values_.add(sizes[draw(4)], /*of_one_part=*/true);
  const int number = 1 + static_cast<int>(draw(3));
  ++clock_;
  const std::string target = fmt::format("/{}/{}?partNumber={}&uploadId={}", upload.bucket.name,
                                         upload.bucket.history.model().key(upload.key), number, upload.id);
  std::erase_if(upload.parts, [&](const auto& part) { return part.first == number; });
  const Reply reply = ask(loop, "PUT", target, {}, values_.bytes(value));
  if (reply.ok()) {
    upload.parts.emplace_back(number, value);
  } else if (!is_gone(upload, reply)) {
    note_failure("a part", reply, upload.bucket, upload.key);
  }
}

void World::complete(Loop& loop, Upload& upload) {
  Bucket& bucket = upload.bucket;
  const auto [number, value] = upload.parts[draw(upload.parts.size())];
  Operation operation{.kind = Operation::Kind::put, .key = upload.key, .value = value, .content = value};
  s3::Headers headers;
  if (draw(4) == 0) {
    operation.condition = Operation::If::absent;
    headers.emplace_back("if-none-match", "*");
  }
  Operation& under_way = begin(bucket, std::move(operation));
  const std::string body = fmt::format(
      "<CompleteMultipartUpload><Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part></CompleteMultipartUpload>",
      number, values_.plain_etag(value));
  const std::string target =
      fmt::format("/{}/{}?uploadId={}", bucket.name, bucket.history.model().key(upload.key), upload.id);
  const Reply reply = ask(loop, "POST", target, std::move(headers), body);
  if (reply.ok() && reply.code.empty()) {
    upload.id.clear();
    if (bucket.versioned()) bucket.know(under_way.key, value, value, reply.version_id);
    return answer(bucket, under_way);
  }
  if (reply.code == "PreconditionFailed") return answer(bucket, under_way, Operation::Outcome::refused);
  if (is_gone(upload, reply)) {
    // No operation at all: as one without an answer that never was.
    under_way.kind = Operation::Kind::read;
    return close(bucket, under_way, 253);
  }
  upload.id.clear();
  answer_error(bucket, under_way, reply);
}

void World::abort(Loop& loop, Upload& upload) {
  ++clock_;
  const std::string target =
      fmt::format("/{}/{}?uploadId={}", upload.bucket.name, upload.bucket.history.model().key(upload.key), upload.id);
  const Reply reply = ask(loop, "DELETE", target);
  if (!reply.ok() && !is_gone(upload, reply)) note_failure("an abort", reply, upload.bucket, upload.key);
  upload.id.clear();
}

// The parts that were acknowledged are there.
void World::list_parts(Loop& loop, Upload& upload) {
  if (upload.id.empty()) return;
  const std::string& key = upload.bucket.history.model().key(upload.key);
  const Reply reply = ask(loop, "GET", fmt::format("/{}/{}?uploadId={}", upload.bucket.name, key, upload.id));
  if (is_gone(upload, reply)) return;
  if (!reply.ok()) return note_failure("parts", reply.code);
  for (const auto& [number, value] : upload.parts) {
    const std::string& etag = values_.plain_etag(value);
    if (reply.body.find(fmt::format("<PartNumber>{}</PartNumber>", number)) == std::string::npos ||
        reply.body.find(etag) == std::string::npos) {
      fail_with(fmt::format("upload {} of {}/{} lacks part {}, value {}: {}", upload.id, upload.bucket.name, key,
                            number, value, reply.body));
    }
  }
}

}  // namespace verbena::simulator
