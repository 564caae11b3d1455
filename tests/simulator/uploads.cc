// Multipart uploads. One client at a time works on one, so what it may have is known without a history of its own.
#include <fmt/format.h>

#include <algorithm>

#include "memory/text_source.h"
#include "simulator/scheduler.h"
#include "simulator/server.h"

namespace verbena::simulator {
namespace {

constexpr size_t large_part_size = 5 * MiB;

}  // namespace

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
    draw(2) == 0 ? list_parts(loop, upload) : list_uploads(loop, bucket);
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
  // Few, since each takes as long as some hundred other operations.
  const size_t size = draw(150) == 0 ? large_part_size : sizes[draw(4)];
  const uint32_t value = values_.add(size, /*of_one_part=*/true);
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

// Some of its parts, in their order. All but the last are large (S3).
std::vector<Values::Part> World::draw_parts(const Upload& upload) {
  std::vector<Values::Part> parts;
  for (const auto& [number, value] : upload.parts) parts.push_back({number, value});
  std::ranges::sort(parts, {}, &Values::Part::number);
  parts.resize(1 + draw(parts.size()));
  for (size_t at = parts.size() - 1; at > 0; --at) {
    const bool is_large = values_.size(parts[at - 1].value) >= large_part_size;
    if (!is_large || draw(4) == 0) parts.erase(parts.begin() + static_cast<ptrdiff_t>(at) - 1);
  }
  return parts;
}

void World::complete(Loop& loop, Upload& upload) {
  Bucket& bucket = upload.bucket;
  const std::vector<Values::Part> parts = draw_parts(upload);
  bool is_new = false;
  const uint32_t content = values_.join(parts, is_new), value = is_new ? content : values_.add(0);
  Operation operation{.kind = Operation::Kind::put, .key = upload.key, .value = value, .content = content};
  s3::Headers headers;
  if (const uint64_t choice = draw(8); choice < 2) {
    operation.condition = Operation::If::absent;
    headers.emplace_back("if-none-match", "*");
  } else if (const uint32_t last = bucket.last[upload.key]; choice == 2 && last != 0) {
    operation.condition = Operation::If::matches;
    operation.expected = last;
    headers.emplace_back("if-match", values_.etag(last));
  }
  Operation& under_way = begin(bucket, std::move(operation));
  std::string body;
  for (const Values::Part& part : parts) {
    body += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", part.number,
                        values_.plain_etag(part.value));
  }
  body = "<CompleteMultipartUpload>" + body + "</CompleteMultipartUpload>";
  const std::string target =
      fmt::format("/{}/{}?uploadId={}", bucket.name, bucket.history.model().key(upload.key), upload.id);
  const Reply reply = ask(loop, "POST", target, std::move(headers), body);
  if (reply.ok() && reply.code.empty()) {
    bucket.ended.insert(std::exchange(upload.id, {}));
    if (bucket.versioned()) bucket.know(under_way.key, value, content, reply.version_id);
    return answer(bucket, under_way);
  }
  const bool conditional = under_way.condition != Operation::If::always;
  if (conditional && reply.code == "PreconditionFailed") {
    return answer(bucket, under_way, Operation::Outcome::refused);
  }
  if (under_way.condition == Operation::If::matches && reply.code == "NoSuchKey") {
    return answer(bucket, under_way, Operation::Outcome::missing);
  }
  if (is_gone(upload, reply)) {
    // No operation at all: as one without an answer that never was.
    under_way.kind = Operation::Kind::read;
    return close(bucket, under_way, 253);
  }
  upload.may_be = under_way.value;
  doubtful_.push_back(upload);
  upload.id.clear();
  answer_error(bucket, under_way, reply);
}

// No call of its is under way any more. It is there: then its completion has not happened, nor will it.
void World::ask_after(Loop& loop, Upload upload) {
  Bucket& bucket = upload.bucket;
  const std::string& key = bucket.history.model().key(upload.key);
  const Reply reply = ask(loop, "GET", fmt::format("/{}/{}?uploadId={}", bucket.name, key, upload.id));
  if (reply.code == "NoSuchUpload") {
    bucket.ended.insert(upload.id);
    return;
  }
  if (!reply.ok()) return note_failure("parts", reply.code);
  answer(bucket, begin(bucket, {.kind = Operation::Kind::never, .key = upload.key, .value = upload.may_be}));
  upload.busy = false;
  uploads_.push_back(upload);
}

// None that had ended before.
void World::list_uploads(Loop& loop, Bucket& bucket) {
  ++clock_;
  const std::set<std::string> ended = bucket.ended;
  const auto page = run_on(loop, server_->store->list_uploads(bucket.name, {}));
  if (!page) {
    return note_failure("a listing of uploads", page.error() == Errc::slow_down ? "slow_down" : describe(page.error()));
  }
  for (const store::UploadInfo& upload : page->uploads) {
    if (!ended.contains(upload.upload_id)) continue;
    fail_with(fmt::format("{}/{}: upload {} is listed, which had ended", bucket.name, upload.key, upload.upload_id));
  }
}

void World::abort(Loop& loop, Upload& upload) {
  ++clock_;
  const std::string target =
      fmt::format("/{}/{}?uploadId={}", upload.bucket.name, upload.bucket.history.model().key(upload.key), upload.id);
  const Reply reply = ask(loop, "DELETE", target);
  if (reply.ok()) upload.bucket.ended.insert(upload.id);
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
