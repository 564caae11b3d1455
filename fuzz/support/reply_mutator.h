// Mutations of native replies' bodies, as message_mutator.h has them for requests.
#pragma once

#include "support/message_mutator.h"

namespace verbena::fuzz {

class ReplyMutator : public FieldChanger {
 public:
  using FieldChanger::FieldChanger;

  // Of the first kind of reply that the body is, from one on that chance selects.
  std::optional<std::string> mutate(Bytes body) {
    constexpr size_t kinds = 6;
    const size_t first = chance.below(kinds);
    for (size_t i = 0; i < kinds; ++i) {
      auto made = mutate_as((first + i) % kinds, body);
      if (made) return made;
    }
    return std::nullopt;
  }

 private:
  static constexpr size_t space = 64 * KiB;

  struct Out {
    std::string text = std::string(space, '\0');
    wire::Writer writer{std::as_writable_bytes(std::span(text))};
    std::string take() {
      text.resize(writer.size());
      return std::move(text);
    }
  };

  std::optional<std::string> mutate_as(size_t kind, Bytes body) {
    switch (kind) {
      case 0:
        return object(body);
      case 1:
        return list(body, 1);
      case 2:
        return list(body, wire::version_of_short_listings);
      case 3:
        return batch(body);
      case 4:
        return values(body);
      default:
        return news(body);
    }
  }

  std::optional<std::string> object(Bytes body) {
    auto reply = wire::decode_object_reply(body);
    if (!reply) return std::nullopt;
    change_one(reply->partial, reply->length, reply->object_size, reply->modified_us, reply->parts, reply->etag,
               reply->version, reply->checksums, reply->ranges, reply->headers, reply->inline_bytes);
    reply->inline_size = static_cast<uint32_t>(reply->inline_bytes.size());
    Out out;
    if (!encode(out.writer, *reply)) return std::nullopt;
    out.writer.bytes(reply->inline_bytes);
    return out.take();
  }

  std::optional<std::string> list(Bytes body, unsigned version) {
    auto reader = wire::ListReader::open(body, version);
    if (!reader) return std::nullopt;
    std::vector<wire::ListItem> items;
    for (wire::ListItem item; reader->next(item);) {
      item.key = keep(std::string(item.key));
      item.etag = keep(std::string(item.etag));
      items.push_back(item);
    }
    if (items.empty()) items.emplace_back();
    const size_t at = chance.below(items.size());
    if (!change_list(items, at, chance)) {
      change_one(items[at].common_prefix, items[at].key, items[at].size, items[at].modified_us, items[at].etag);
    }
    std::string made(space, '\0');
    wire::ListWriter writer(std::as_writable_bytes(std::span(made)), version);
    for (const auto& item : items) (void)writer.add(item);
    made.resize(writer.finish(chance.percent(50)));
    if (chance.percent(5)) made[4] = static_cast<char>(made[4] + 1 + static_cast<char>(chance.below(3)));  // the count
    return made;
  }

  void change_entry(wire::BatchEntry& entry, bool inline_too) {
    change_one(entry.partial, entry.length, entry.object_size, entry.modified_us, entry.etag, entry.version,
               entry.checksum, entry.inline_bytes);
    if (chance.percent(20)) entry.code = chance.percent(50) ? Errc::ok : Errc::not_found;
    if (!inline_too) return;
    if (chance.percent(20)) entry.in_reply = !entry.in_reply;
    if (entry.in_reply && chance.percent(90)) entry.length = entry.inline_bytes.size();
  }

  std::optional<std::string> batch(Bytes body) {
    auto reply = wire::decode_batch_reply(body);
    if (!reply) return std::nullopt;
    std::vector<wire::BatchEntry> entries;
    wire::BatchEntry entry;
    for (uint16_t i = 0; i < reply->answered && wire::next_entry(*reply, entry); ++i) entries.push_back(entry);
    if (entries.empty()) entries.emplace_back();
    const size_t at = chance.below(entries.size());
    if (!change_list(entries, at, chance)) change_entry(entries[at], true);
    Out out;
    uint8_t details = reply->details;
    if (chance.percent(10)) details = static_cast<uint8_t>(chance.below(wire::details_all + 1u));
    wire::encode_batch_reply_head(out.writer, details, static_cast<uint16_t>(entries.size()));
    for (const auto& one : entries) {
      if (!encode(out.writer, one, details)) break;
      if (one.in_reply) out.writer.bytes(one.inline_bytes);
    }
    return out.take();
  }

  std::optional<std::string> values(Bytes body) {
    auto reader = wire::ValueReader::open(body);
    if (!reader) return std::nullopt;
    std::vector<wire::ValueEntry> entries;
    for (wire::ValueEntry value; reader->left() != 0 && reader->next(value);) {
      entries.push_back(value);
      entries.back().key = keep(std::string(value.key));
    }
    if (entries.empty()) entries.emplace_back().key = keep("key");
    const size_t at = chance.below(entries.size());
    if (!change_list(entries, at, chance)) {
      switch (chance.below(3)) {
        case 0:
          change(entries[at].key);
          break;
        case 1:
          change(entries[at].offset);
          break;
        default:
          change_entry(entries[at].entry, false);
      }
    }
    Out out;
    wire::encode_list_values_head(out.writer, chance.percent(50), reader->details(),
                                  static_cast<uint16_t>(entries.size()));
    wire::ValueWriter writer(out.writer, reader->details());
    for (const auto& one : entries) (void)writer.add(one);
    return out.take();
  }

  std::optional<std::string> news(Bytes body) {
    auto reply = wire::decode_watch_news(body);
    if (!reply) return std::nullopt;
    std::vector<wire::WatchedChange> changes;
    wire::Reader in(reply->changes);
    while (in.left() != 0) {
      const auto one = wire::next_change(in);
      if (!one) break;
      changes.push_back(*one);
    }
    if (changes.empty()) changes.emplace_back();
    const size_t at = chance.below(changes.size());
    if (!change_list(changes, at, chance)) {
      change_one(changes[at].what, changes[at].size, changes[at].time_us, changes[at].key, changes[at].version,
                 changes[at].etag);
    }
    Out out;
    if (chance.percent(20)) change_one(reply->gap, reply->more, reply->upto);
    reply->count = static_cast<uint16_t>(changes.size());
    wire::encode_news_head(out.writer, *reply);
    for (const auto& one : changes) (void)encode(out.writer, one);
    return out.take();
  }
};

}  // namespace verbena::fuzz
