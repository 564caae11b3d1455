// Objects that are encrypted with customers' keys (SSE-C): the right key gets the right bytes, any other gets none.
#include <fmt/format.h>

#include <array>
#include <compare>

#include "base/bytes.h"
#include "base/checksum.h"
#include "simulator/register.h"
#include "simulator/scene.h"

namespace verbena::simulator {
namespace {

constexpr uint32_t keys_count = 3;  // 0: none

struct Sealed {
  uint32_t value = 0, key = 0;  // 0, 0: no object
  auto operator<=>(const Sealed&) const = default;
};

std::string key_bytes(uint32_t key) {
  std::string bytes = fmt::format("customer {:023}", key);
  return bytes;
}

void add_key(s3::Headers& headers, uint32_t key, const std::string& prefix = "x-amz-") {
  if (key == 0) return;
  const std::string bytes = key_bytes(key);
  Digest digest(Algorithm::md5);
  digest.update(as_bytes(bytes));
  const std::string name = prefix + "server-side-encryption-customer-";
  headers.emplace_back(name + "algorithm", "AES256");
  headers.emplace_back(name + "key", to_base64(as_bytes(bytes)));
  headers.emplace_back(name + "key-md5", digest.finish_base64());
}

bool is_refused(int status) { return status == 400 || status == 403; }

class CustomerKeys final : public Scene {
 public:
  explicit CustomerKeys(World& world) : Scene(world, "keys") {}
  void begin(Loop& loop) override { make_bucket(loop, "sealed"); }

  void act(Loop& loop) override {
    const auto at = static_cast<uint32_t>(draw(objects_.size()));
    const uint64_t choice = draw(10);
    if (choice < 5 || objects_[at].busy()) return read(loop, at);
    if (choice < 7) return put(loop, at);
    if (choice < 8) return upload(loop, at);
    if (choice < 9) return copy(loop, at);
    remove(loop, at);
  }
  void crash() override {
    for (auto& object : objects_) object.release();
  }
  void look(Loop& loop) override {
    for (uint32_t at = 0; at < objects_.size(); ++at) {
      for (uint32_t key = 0; key < keys_count; ++key) read_with(loop, at, key);
    }
  }

 private:
  static std::string target(uint32_t at) { return fmt::format("/sealed/s{}", at); }

  uint32_t draw_value() {
    constexpr size_t sizes[] = {8, 300, 5000, 70'000, 150'000};
    return values().add(sizes[draw(5)]);
  }
  uint32_t draw_key() { return static_cast<uint32_t>(draw(keys_count)); }

  void close(uint32_t at, const Sealed& next, std::string_view what, const Reply& reply) {
    if (reply.ok() && reply.code.empty()) return objects_[at].done(next);
    note_failure(what, reply);
    objects_[at].unknown(settled());
  }

  void put(Loop& loop, uint32_t at) {
    const Sealed next{draw_value(), draw_key()};
    objects_[at].begin({next});
    s3::Headers headers;
    add_key(headers, next.key);
    close(at, next, "a PUT", ask(loop, "PUT", target(at), headers, values().bytes(next.value)));
  }

  // Of one part.
  void upload(Loop& loop, uint32_t at) {
    const Sealed next{draw_value(), draw_key()};
    objects_[at].begin({});
    s3::Headers headers;
    add_key(headers, next.key);
    const Reply begun = ask(loop, "POST", target(at) + "?uploads", headers);
    const std::string id = begun.element("UploadId");
    const std::string of = target(at) + "?uploadId=" + id;
    Reply part;
    if (begun.ok()) part = put_part(loop, of, next, headers);
    if (!begun.ok() || !part.ok()) {
      note_failure("an upload", begun.ok() ? part : begun);
      return objects_[at].refused();
    }
    objects_[at].add({next});
    close(at, next, "a completion",
          ask(loop, "POST", of, {},
              fmt::format("<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part>"
                          "</CompleteMultipartUpload>",
                          part.etag)));
  }
  // First with another key.
  Reply put_part(Loop& loop, const std::string& of, const Sealed& next, const s3::Headers& headers) {
    if (draw(2) == 0) {
      s3::Headers wrong;
      add_key(wrong, (next.key + 1 + static_cast<uint32_t>(draw(keys_count - 1))) % keys_count);
      const Reply reply = ask(loop, "PUT", of + "&partNumber=1", wrong, "a part with another key");
      if (reply.ok()) fail_with("a part with another key than its upload's was taken");
      if (!is_refused(reply.status)) note_failure("a part with another key", reply);
    }
    return ask(loop, "PUT", of + "&partNumber=1", headers, values().bytes(next.value));
  }

  // From an object that is what it is meanwhile.
  void copy(Loop& loop, uint32_t at) {
    const auto from = static_cast<uint32_t>(draw(objects_.size()));
    if (from == at || objects_[from].busy() || objects_[from].may_be().size() != 1) return;
    const Sealed source = *objects_[from].may_be().begin();
    if (source.value == 0) return;
    const uint32_t given = draw(4) == 0 ? draw_key() : source.key;
    const Sealed next{source.value, draw_key()};
    objects_[from].begin({});
    objects_[at].begin({next});
    s3::Headers headers{{"x-amz-copy-source", target(from)}};
    add_key(headers, given, "x-amz-copy-source-");
    add_key(headers, next.key);
    const Reply reply = ask(loop, "PUT", target(at), headers);
    objects_[from].refused();
    if (given == source.key) return close(at, next, "a copy", reply);
    if (reply.ok() && reply.code.empty()) fail_with("a copy with another key than its source's");
    if (!is_refused(reply.status)) note_failure("a copy with another key", reply);
    objects_[at].refused();
  }

  void remove(Loop& loop, uint32_t at) {
    objects_[at].begin({Sealed{}});
    close(at, {}, "a DELETE", ask(loop, "DELETE", target(at)));
  }

  void read(Loop& loop, uint32_t at) {
    uint32_t key = draw_key();
    if (draw(2) == 0) key = objects_[at].may_be().rbegin()->key;
    read_with(loop, at, key);
  }

  void read_with(Loop& loop, uint32_t at, uint32_t key) {
    s3::Headers headers;
    add_key(headers, key);
    const uint64_t kind = draw(4);
    const size_t from = kind == 0 ? draw(8) : 0;
    if (kind == 0) headers.emplace_back("range", fmt::format("bytes={}-", from));
    const auto reading = objects_[at].begin_read();
    const Reply reply = ask(loop, kind == 1 ? "HEAD" : "GET", target(at), headers);
    const auto fits = [&](const Sealed& is) {
      if (reply.status == 404) return is.value == 0;
      if (is.value == 0) return false;
      if (is_refused(reply.status)) return is.key != key;
      return is.key == key && (kind == 1 || reply.body == values().bytes(is.value).substr(from));
    };
    if (!reply.ok() && reply.status != 404 && !is_refused(reply.status)) {
      note_failure("a read", reply);
      return objects_[at].end_read(reading);
    }
    std::string may_be;
    for (const Sealed& is : objects_[at].may_be()) may_be += fmt::format(" {} with key {}", is.value, is.key);
    if (objects_[at].end_read(reading, fits)) return;
    fail_with(fmt::format("{} with key {}: {} {}, of{}", target(at), key, reply.status, reply.code, may_be));
  }

  std::array<Register<Sealed>, 3> objects_;
};

}  // namespace

std::unique_ptr<Scene> make_customer_keys(World& world) { return std::make_unique<CustomerKeys>(world); }

}  // namespace verbena::simulator
