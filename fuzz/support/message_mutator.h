// Mutations of native messages' bodies: a body is decoded, one field or item is changed, and it is encoded again, so
// that its lengths and counts are right. Requests here; replies in reply_mutator.h.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "native/wire/batch.h"
#include "native/wire/bodies.h"
#include "native/wire/list_values.h"
#include "native/wire/match.h"
#include "native/wire/watch.h"
#include "support/mutator.h"

namespace verbena::fuzz {

namespace wire = native::wire;

// Changes values; texts that it makes live as long as it does.
class FieldChanger {
 public:
  explicit FieldChanger(unsigned seed) : chance(seed) {}

  void change(uint8_t& v) { change_number(v, chance); }
  void change(uint16_t& v) { change_number(v, chance); }
  void change(uint32_t& v) { change_number(v, chance); }
  void change(uint64_t& v) { change_number(v, chance); }
  void change(int64_t& v) { change_number(v, chance); }
  void change(bool& v) { v = !v; }
  void change(std::string_view& text) {
    static constexpr const char* words[] = {"",
                                            "bucket",
                                            "other",
                                            "a",
                                            "a/key",
                                            "prefix/key",
                                            "prefix/",
                                            "/",
                                            "*",
                                            "\"d41d8cd98f00b204e9800998ecf8427e\"",
                                            "null",
                                            "content-type",
                                            "x-amz-meta-a",
                                            "x-amz-tagging",
                                            "x-amz-acl",
                                            "x-amz-storage-class",
                                            "x-amz-server-side-encryption",
                                            "x-amz-object-lock-mode",
                                            "x-verbena-ttl",
                                            "60",
                                            "private",
                                            "AES256",
                                            "0",
                                            "k=v&l=w",
                                            "2030-01-01T00:00:00Z"};
    switch (chance.below(5)) {
      case 0:
        text = keep(mutated_bytes(text, text.size() + 8));
        break;
      case 1:
        text = text.substr(0, chance.below(text.size() + 1));
        break;
      case 2:
        text = keep(std::string(chance.below(1100), 'k'));
        break;
      default:
        text = chance.one(std::span<const char* const>(words));
    }
  }
  void change(Bytes& bytes) { bytes = as_bytes(keep(mutated_bytes(as_text(bytes), bytes.size() + 16))); }
  void change(wire::Descriptor& window) {
    uint64_t* const fields[] = {&window.base, &window.size, &window.key};
    change(*fields[chance.below(3)]);
  }
  void change(wire::Range& range) { change(chance.percent(50) ? range.first : range.last); }
  void change(wire::Placed& placed) { change(chance.percent(50) ? placed.offset : placed.length); }
  void change(wire::HeaderPair& pair) { change(chance.percent(50) ? pair.name : pair.value); }
  void change(Algorithm& algorithm) { algorithm = std::span(all_algorithms)[chance.below(std::size(all_algorithms))]; }
  void change(wire::ChecksumView& checksum) {
    if (chance.percent(40)) {
      change(checksum.algorithm);
      checksum.value = keep(std::string(digest_size(checksum.algorithm), 'd'));
    } else {
      chance.percent(50) ? change(checksum.parts) : change(checksum.value);
    }
  }
  template <class T>
  void change(std::optional<T>& value) {
    if (value && chance.percent(30)) {
      value.reset();
    } else {
      if (!value) value.emplace(T{});
      change(*value);
    }
  }
  template <class T, size_t N>
  void change(wire::Few<T, N>& list) {
    std::vector<T> items(list.begin(), list.end());
    const size_t at = chance.below(items.size());
    if (items.empty() || chance.percent(25)) {
      items.push_back(items.empty() ? T{} : items[at]);
      change(items.back());
    } else if (chance.percent(25)) {
      items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      change(items[at]);
    }
    list = {};
    for (const T& item : items) (void)list.add(item);
  }
  // One of them.
  template <class... Field>
  void change_one(Field&... fields) {
    size_t left = chance.below(sizeof...(fields));
    ((left-- == 0 ? change(fields) : void()), ...);
  }
  std::string_view keep(std::string text) { return kept_.emplace_back(std::move(text)); }

  Chance chance;

 private:
  std::deque<std::string> kept_;
};

// Repeats, removes, exchanges or moves an item, or none: then the caller changes `at`.
template <class T>
bool change_list(std::vector<T>& items, size_t at, Chance& chance) {
  switch (chance.below(8)) {
    case 0:
      items.insert(items.begin() + static_cast<std::ptrdiff_t>(at), T(items[at]));
      return true;
    case 1:
      items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
      return true;
    case 2:
      std::swap(items[at], items[chance.below(items.size())]);
      return true;
    case 3: {
      const T copy = items[at];
      for (size_t i = chance.below(200); i > 0; --i) items.push_back(copy);
      return true;
    }
    default:
      return false;
  }
}

class MessageMutator : public FieldChanger {
 public:
  using FieldChanger::FieldChanger;

  // nullopt: not a body of that type.
  std::optional<std::string> mutate(wire::Type type, Bytes body, bool has_window) {
    using enum wire::Type;
    switch (type) {
      case hello:
        return again(wire::decode_hello(body), [&](auto& b) { change_one(b.message_size_max, b.address); });
      case get:
      case head:
        return again(wire::decode_get(body), [&](auto& b) {
          change_one(b.bucket, b.key, b.window, b.inline_max, b.part_number, b.if_modified_since_s,
                     b.if_unmodified_since_s, b.ranges, b.if_match, b.if_none_match);
        });
      case put:
        return again_put(wire::decode_put(body, has_window), has_window);
      case append:
        return again_put(wire::decode_append(body, has_window), has_window);
      case rename:
        return again(wire::decode_rename(body), [&](auto& b) {
          change_one(b.bucket, b.from, b.to, b.source_if_match, b.if_match, b.if_none_match, b.token);
        });
      case del:
        return again(wire::decode_delete(body), [&](auto& b) { change_one(b.bucket, b.key, b.if_match); });
      case list:
        return again(wire::decode_list(body),
                     [&](auto& b) { change_one(b.bucket, b.prefix, b.delimiter, b.after, b.max_keys); });
      case list_values:
        return again(wire::decode_list_values(body), [&](auto& b) {
          change_one(b.window, b.value_size_max, b.max_keys, b.details, b.bucket, b.prefix, b.after);
        });
      case watch:
        return again(wire::decode_watch(body), [&](auto& b) { change_one(b.bucket, b.prefix); });
      case watch_next:
        return again(wire::decode_watch_next(body), [&](auto& b) { change_one(b.watch, b.seen, b.wait_ms); });
      case watch_end:
        return again(wire::decode_watch_end(body), [&](auto& b) { change_one(b.watch); });
      case match:
        return again(wire::decode_match(body), [&](auto& b) {
          change_one(b.window, b.details, b.width, b.lease_ms, b.lease, b.bucket, b.prefix, b.counts, b.keys);
          if (chance.percent(60) && b.width != 0 && b.window.size == 0)
            b.keys = as_bytes(keep(std::string(b.total() % 512 * b.width, 'h')));
        });
      case lease_end:
        return again(wire::decode_lease_end(body), [&](auto& b) { change_one(b.lease); });
      default:
        return wire::is_batch(type) ? mutate_batch(type, body) : std::nullopt;
    }
  }

 private:
  static constexpr size_t space = 16 * KiB;

  template <class Body, class Change>
  std::optional<std::string> again(std::optional<Body> body, Change change_it) {
    if (!body) return std::nullopt;
    change_it(*body);
    return encoded(*body, {});
  }
  template <class Body>
  std::optional<std::string> encoded(const Body& body, Bytes rest) {
    std::string out(space, '\0');
    wire::Writer writer(std::as_writable_bytes(std::span(out)));
    if (!encode(writer, body)) return std::nullopt;
    out.resize(writer.size());
    return out.append(as_text(rest));
  }

  void change_put(wire::Put& put, bool has_window) {
    change_one(put.bucket, put.key, put.window, put.size, put.compute, put.content_md5, put.if_match, put.if_none_match,
               put.expected, put.headers, put.inline_bytes);
    if (has_window) {
      put.inline_bytes = {};
    } else if (chance.percent(90)) {
      put.size = put.inline_bytes.size();
    }
  }
  std::optional<std::string> again_put(std::optional<wire::Put> put, bool has_window) {
    if (!put) return std::nullopt;
    change_put(*put, has_window);
    return encoded(*put, put->inline_bytes);
  }
  std::optional<std::string> again_put(std::optional<wire::Append> append, bool has_window) {
    if (!append) return std::nullopt;
    chance.percent(15) ? change(append->offset) : change_put(append->put, has_window);
    return encoded(*append, append->put.inline_bytes);
  }

  void change_item(wire::BatchItem& item, wire::Type type) {
    if (chance.percent(25)) item.fields = static_cast<uint8_t>(item.fields ^ (1u << chance.below(8)));
    item.fields &= wire::batch_fields(type);
    item.fields = static_cast<uint8_t>(item.fields & ~wire::field_place_next);
    change_one(item.bucket, item.key, item.place.window, item.place.offset, item.place.size, item.range, item.version,
               item.if_match, item.if_none_match, item.expected, item.headers, item.inline_bytes);
    if (item.place.window != wire::no_window && chance.percent(80)) item.place.window %= 2;
  }

  std::optional<std::string> mutate_batch(wire::Type type, Bytes body) {
    auto reader = wire::BatchReader::open(body, type);
    if (!reader) return std::nullopt;
    wire::BatchHead head = reader->head();
    std::vector<wire::BatchItem> items;
    for (wire::BatchItem item; reader->left() != 0 && reader->next(item);) {
      items.push_back(item);
      items.back().key = keep(std::string(item.key));
      if (item.has(wire::field_place_next)) items.back().fields |= wire::field_place;
      items.back().fields = static_cast<uint8_t>(items.back().fields & ~wire::field_place_next);
    }
    if (items.empty() || chance.percent(20)) {
      change_one(head.details, head.inline_max, head.progress_window, head.progress_offset, head.windows, head.buckets);
    } else {
      const size_t at = chance.below(items.size());
      if (!change_list(items, at, chance)) change_item(items[at], type);
    }
    std::string out(space, '\0');
    wire::Writer writer(std::as_writable_bytes(std::span(out)));
    wire::BatchWriter batch(writer, type);
    if (!batch.begin(head)) return std::nullopt;
    for (const auto& item : items) {
      if (!batch.add(item)) break;
    }
    batch.finish();
    out.resize(writer.size());
    return out;
  }
};

inline constexpr wire::Type request_types[] = {
    wire::Type::hello,       wire::Type::ping,      wire::Type::bye,      wire::Type::get,
    wire::Type::head,        wire::Type::put,       wire::Type::del,      wire::Type::list,
    wire::Type::get_many,    wire::Type::head_many, wire::Type::put_many, wire::Type::delete_many,
    wire::Type::list_values, wire::Type::append,    wire::Type::rename,   wire::Type::watch,
    wire::Type::watch_next,  wire::Type::watch_end, wire::Type::match,    wire::Type::lease_end};

}  // namespace verbena::fuzz
