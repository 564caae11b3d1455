// What the hot tier keeps of an entry: one block of memory, with its names at the end. A look-up by name reads its
// second cache line and those behind it and nothing else, so that many look-ups wait for little memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "cache/entry.h"

namespace verbena::cache {

// Of a bucket: entries of an earlier one are not found any more.
struct Generation {
  uint16_t slot = 0;
  uint32_t number = 0;
};

struct Node;
struct NodeEnd {
  void operator()(Node* node) const;
};
using NodePtr = std::unique_ptr<Node, NodeEnd>;

struct Node {
  static constexpr size_t line = 64;  // a cache line of the processor

  // Whether a node has room for such names.
  static bool holds(Key key) {
    return key.name.size() <= std::numeric_limits<uint32_t>::max() &&
           key.bucket.size() <= std::numeric_limits<uint16_t>::max();
  }
  static NodePtr make(uint64_t hash, Key key, EntryPtr entry, Generation generation) {
    // Aligned by hand: to allocate aligned memory costs five times as much.
    size_t space = sizeof(Node) + key.name.size() + key.bucket.size() + line - 1;
    void* const memory = ::operator new(space);
    void* at = memory;
    std::align(line, sizeof(Node), at, space);
    NodePtr node(new (at) Node(hash, key, std::move(entry), generation));
    node->memory = memory;
    return node;
  }
  Node(const Node&) = delete;

  std::string_view name() const { return {names(), name_size}; }
  std::string_view bucket() const { return {names() + name_size, bucket_size}; }
  bool is(Key key) const {
    return name_size == key.name.size() && bucket_size == key.bucket.size() &&
           std::memcmp(names(), key.name.data(), name_size) == 0 &&
           std::memcmp(names() + name_size, key.bucket.data(), bucket_size) == 0;
  }

  // The cache lines of the label and of names of so many bytes, which is what is() reads.
  static size_t lines_of(Key key) {
    return (sizeof(Node) - line + key.name.size() + key.bucket.size() + line - 1) / line;
  }
  void fetch_names_ahead(size_t lines) const {
    const char* at = reinterpret_cast<const char*>(this) + line;
    for (; lines != 0; --lines, at += line) __builtin_prefetch(at);
  }
  void fetch_ahead(size_t lines) const {
    __builtin_prefetch(this);
    fetch_names_ahead(lines);
  }

  // The first line.
  Node* newer = nullptr;  // neighbours in the queue
  Node* older = nullptr;
  EntryPtr entry;
  const uint64_t hash;
  const size_t held_bytes;
  void* memory = nullptr;  // of the node
  bool main = false;       // in the main queue
  // The second line, up to the names.
  alignas(32) const Label label;
  const Generation generation;
  const uint32_t name_size;
  const uint16_t bucket_size;
  uint8_t uses = 0;  // since it was added, or since the main queue last passed it

 private:
  friend struct NodeEnd;
  Node(uint64_t its_hash, Key key, EntryPtr its_entry, Generation its_generation)
      : entry(std::move(its_entry)),
        hash(its_hash),
        held_bytes(entry->held_bytes()),
        label(entry->label()),
        generation(its_generation),
        name_size(static_cast<uint32_t>(key.name.size())),
        bucket_size(static_cast<uint16_t>(key.bucket.size())) {
    char* const text = reinterpret_cast<char*>(this + 1);
    std::memcpy(text, key.name.data(), key.name.size());
    std::memcpy(text + key.name.size(), key.bucket.data(), key.bucket.size());
  }
  ~Node() = default;
  const char* names() const { return reinterpret_cast<const char*>(this + 1); }
};
static_assert(sizeof(Node) == 96, "names begin in the second cache line, which begins with the label");

inline void NodeEnd::operator()(Node* node) const {
  void* const memory = node->memory;
  node->~Node();
  ::operator delete(memory);
}

// Nodes by age. Owns them.
class NodeQueue {
 public:
  NodeQueue() = default;
  NodeQueue(const NodeQueue&) = delete;
  ~NodeQueue() {
    while (oldest_ != nullptr) take(*oldest_);
  }

  bool empty() const { return oldest_ == nullptr; }
  Node& oldest() { return *oldest_; }
  // As the newest.
  Node& add(NodePtr added) {
    Node* const node = added.release();
    node->newer = nullptr;
    node->older = std::exchange(newest_, node);
    (node->older != nullptr ? node->older->newer : oldest_) = node;
    return *node;
  }
  NodePtr take(Node& node) {
    (node.newer != nullptr ? node.newer->older : newest_) = node.older;
    (node.older != nullptr ? node.older->newer : oldest_) = node.newer;
    return NodePtr(&node);
  }

 private:
  Node* newest_ = nullptr;
  Node* oldest_ = nullptr;
};

}  // namespace verbena::cache
