#include "store/sealed_object.h"

#include <set>

#include "store/hot_store.h"
#include "store/local/test_store.h"

namespace verbena::store {
namespace {

using local::pattern;
using local::TestStore;

// The stored form, accessible to a test.
struct Shelf {
  std::string bytes;
  ObjectInfo info;
};

class ShelfWriter final : public ObjectWriter {
 public:
  explicit ShelfWriter(Shelf& shelf) : shelf_(shelf) {}
  Task<Result<void>> append(memory::Chunk chunk) override {
    shelf_.bytes += as_text(chunk.bytes);
    co_return Result<void>();
  }
  Task<Result<ObjectInfo>> commit(ObjectInfo info, CommitConditions) override {
    if (stored_size(info) != shelf_.bytes.size()) co_return fail(Errc::internal, "size");
    shelf_.info = info;
    co_return info;
  }

 private:
  Shelf& shelf_;
};

class ShelfReader final : public ObjectReader {
 public:
  ShelfReader(const Shelf& shelf, memory::Arena& arena) : shelf_(shelf), arena_(arena) {}
  const ObjectInfo& info() const override { return shelf_.info; }
  Task<Result<memory::Chunk>> read(uint64_t offset, size_t length) override {
    if (length > chunk_size_max || offset + length > shelf_.bytes.size()) co_return fail(Errc::invalid_range);
    VB_CO_ASSIGN(memory::Lease lease, arena_.lease(length));
    std::memcpy(lease.data(), shelf_.bytes.data() + offset, length);
    const Bytes bytes = lease.bytes();
    co_return memory::Chunk{std::move(lease), bytes};
  }

 private:
  const Shelf& shelf_;
  memory::Arena& arena_;
};

Salt salt_of(uint8_t seed) {
  Salt salt;
  salt.fill(static_cast<std::byte>(seed));
  return salt;
}

class SealedObjectTest : public testing::Test {
 protected:
  SealedObjectTest() : t_(&fs_) { t_.open(); }

  Shelf sealed(const std::string& bytes, const Salt& salt, size_t chunk_size = 1 * MiB) {
    Shelf shelf;
    std::optional<uint64_t> size;
    if (chunk_size % 2 == 0) size = bytes.size();  // known, or not
    auto writer = make_sealing_writer(std::make_unique<ShelfWriter>(shelf), t_.arena(), key_, salt, size);
    EXPECT_TRUE(t_.append(*writer, bytes, chunk_size));
    ObjectInfo info;
    info.size = bytes.size();
    EXPECT_TRUE(t_.run(writer->commit(std::move(info), {})));
    return shelf;
  }
  Result<std::string> opened(const Shelf& shelf, std::vector<SealedPart> parts, uint64_t offset, uint64_t length) {
    auto below = std::make_shared<ShelfReader>(shelf, t_.arena());
    VB_ASSIGN(auto reader, make_opening_reader(below, t_.arena(), key_, std::move(parts), "b/k"));
    return t_.read(*reader, offset, length);
  }
  Result<std::string> opened(const Shelf& shelf, const Salt& salt) {
    return opened(shelf, {{shelf.info.size, salt}}, 0, shelf.info.size);
  }

  local::FaultyFileSystem fs_;
  TestStore t_;
  const Secret key_ = Secret::random(object_key_size);
};

const std::vector<size_t> sizes = {0,          1,       16,          65'535,  65'536,      65'537,
                                   3 * 65'536, 100'000, 1 * MiB - 1, 1 * MiB, 1 * MiB + 1, 3 * MiB + 77};

TEST_F(SealedObjectTest, WhatGoesInComesOutHoweverItIsCut) {
  for (const size_t size : sizes) {
    const std::string bytes = pattern(size, size);
    for (const size_t chunk : {size_t{4097}, size_t{65'536}, size_t{200'000}, size_t{1 * MiB}}) {
      const Shelf shelf = sealed(bytes, salt_of(1), chunk);
      ASSERT_EQ(shelf.bytes.size(), sealed_size(size)) << size;
      ASSERT_EQ(shelf.info.size, size);
      const auto out = opened(shelf, salt_of(1));
      ASSERT_TRUE(out) << size << " " << describe(out.error());
      ASSERT_TRUE(*out == bytes) << size << " " << chunk;
    }
  }
}

TEST_F(SealedObjectTest, EveryRangeGivesItsBytes) {
  const std::string bytes = pattern(400'000, 5);
  const Shelf shelf = sealed(bytes, salt_of(1));
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    const uint64_t offset = random() % bytes.size();
    const uint64_t length = 1 + random() % (bytes.size() - offset);
    const auto out = opened(shelf, {{bytes.size(), salt_of(1)}}, offset, length);
    ASSERT_TRUE(out && *out == bytes.substr(offset, length)) << offset << "+" << length;
  }
}

TEST_F(SealedObjectTest, PartsAreOneObject) {
  Shelf whole;
  std::string bytes;
  std::vector<SealedPart> parts;
  for (const size_t size : {size_t{700'000}, size_t{0}, size_t{65'536}, size_t{5}, size_t{1'100'000}}) {
    const std::string part = pattern(size, size);
    whole.bytes += sealed(part, salt_of(static_cast<uint8_t>(parts.size()))).bytes;
    parts.push_back({size, salt_of(static_cast<uint8_t>(parts.size()))});
    bytes += part;
  }
  whole.info.size = bytes.size();
  whole.info.stored_size = whole.bytes.size();
  EXPECT_TRUE(*opened(whole, parts, 0, bytes.size()) == bytes);
  EXPECT_TRUE(*opened(whole, parts, 690'000, 80'000) == bytes.substr(690'000, 80'000));
  std::swap(parts[0], parts[4]);
  EXPECT_FALSE(opened(whole, parts, 0, bytes.size()));
  std::swap(parts[0], parts[4]);
  parts.pop_back();
  EXPECT_EQ(opened(whole, parts, 0, 10).error().code, Errc::corrupt_object);
}

// Plain bytes of a flipped bit are never returned, wherever it is: every stored byte is authenticated.
TEST_F(SealedObjectTest, EveryFlippedByteIsSeen) {
  const std::string bytes = pattern(65'536 + 333, 9);
  const Shelf good = sealed(bytes, salt_of(1));
  for (size_t at = 0; at < good.bytes.size(); at += at < 65'000 ? 97 : 1) {
    Shelf bad = good;
    bad.bytes[at] = static_cast<char>(bad.bytes[at] ^ (1 << (at % 8)));
    const auto out = opened(bad, salt_of(1));
    ASSERT_FALSE(out) << at;
    ASSERT_EQ(out.error().code, Errc::corrupt_object) << at;
  }
}

TEST_F(SealedObjectTest, ADamagedBlockLeavesTheOthersReadable) {
  const std::string bytes = pattern(5 * 65'536, 9);
  Shelf shelf = sealed(bytes, salt_of(1));
  shelf.bytes[2 * 65'536 + 7] ^= 1;
  const std::vector<SealedPart> parts = {{bytes.size(), salt_of(1)}};
  EXPECT_TRUE(*opened(shelf, parts, 0, 2 * 65'536) == bytes.substr(0, 2 * 65'536));
  EXPECT_TRUE(*opened(shelf, parts, 3 * 65'536, 65'536) == bytes.substr(3 * 65'536, 65'536));
  EXPECT_FALSE(opened(shelf, parts, 2 * 65'536, 1));
}

TEST_F(SealedObjectTest, BlocksThatChangedPlacesDoNotOpen) {
  const std::string bytes = pattern(4 * 65'536, 9);
  Shelf shelf = sealed(bytes, salt_of(1));
  const size_t tags = bytes.size();
  // Block and tag are swapped together, so that each pair still matches.
  for (size_t i = 0; i < 65'536; ++i) std::swap(shelf.bytes[i], shelf.bytes[2 * 65'536 + i]);
  for (size_t i = 0; i < 16; ++i) std::swap(shelf.bytes[tags + i], shelf.bytes[tags + 32 + i]);
  EXPECT_FALSE(opened(shelf, salt_of(1)));
}

TEST_F(SealedObjectTest, AnotherPartsOrObjectsBlocksDoNotOpen) {
  const std::string bytes = pattern(65'536, 9);
  EXPECT_FALSE(opened(sealed(bytes, salt_of(1)), salt_of(2)));
  const Shelf shelf = sealed(bytes, salt_of(1));
  const Secret other = Secret::random(object_key_size);
  auto reader = make_opening_reader(std::make_shared<ShelfReader>(shelf, t_.arena()), t_.arena(), other,
                                    {{bytes.size(), salt_of(1)}}, "b/k");
  ASSERT_TRUE(reader);
  EXPECT_EQ(t_.read(**reader, 0, 10).error().code, Errc::corrupt_object);
}

TEST_F(SealedObjectTest, WhatWasCutIsSeen) {
  const std::string bytes = pattern(200'000, 9);
  Shelf shelf = sealed(bytes, salt_of(1));
  shelf.bytes.resize(shelf.bytes.size() - 16 - 65'536);
  shelf.info.stored_size = shelf.bytes.size();
  EXPECT_EQ(opened(shelf, salt_of(1)).error().code, Errc::corrupt_object);
  // Also if the sizes are made to fit: the last block then ends elsewhere.
  Shelf fitted = sealed(bytes, salt_of(1));
  const std::string tags = fitted.bytes.substr(bytes.size());
  fitted.bytes = fitted.bytes.substr(0, 199'990) + tags;
  fitted.info.size = 199'990;
  fitted.info.stored_size = fitted.bytes.size();
  EXPECT_FALSE(opened(fitted, {{199'990, salt_of(1)}}, 199'000, 10));
}

TEST_F(SealedObjectTest, NoBlockIsEverSealedTheSameWay) {
  const std::string same(3 * 65'536, 'x');
  std::set<std::string> seen;
  for (int object = 0; object < 3; ++object) {
    const Shelf shelf = sealed(same, salt_of(static_cast<uint8_t>(object)));
    for (size_t at = 0; at < same.size(); at += 65'536) {
      EXPECT_TRUE(seen.insert(shelf.bytes.substr(at, 65'536)).second);
    }
    EXPECT_EQ(shelf.bytes.find("xxxxxxxx"), std::string::npos);
  }
  EXPECT_EQ(seen.size(), 9u);
}

TEST_F(SealedObjectTest, SharedBytesAreLeftAsTheyAre) {
  const std::string bytes = pattern(100'000, 3);
  auto shared = std::make_shared<std::string>(bytes);
  Shelf shelf;
  auto writer = make_sealing_writer(std::make_unique<ShelfWriter>(shelf), t_.arena(), key_, salt_of(1));
  memory::Chunk chunk{{}, as_bytes(*shared), shared};
  ASSERT_TRUE(t_.run(writer->append(std::move(chunk))));
  EXPECT_TRUE(*shared == bytes);
  ObjectInfo info;
  info.size = bytes.size();
  ASSERT_TRUE(t_.run(writer->commit(std::move(info), {})));
  EXPECT_TRUE(*opened(shelf, salt_of(1)) == bytes);
}

TEST_F(SealedObjectTest, TheHotTierKeepsWhatIsSealed) {
  t_.make_bucket("b");
  HotStore hot(*t_.store, HotStore::Options{&t_.arena(), 16 * MiB, 4 * MiB});
  for (const size_t size : {size_t{1}, size_t{5'000}, size_t{300'000}, size_t{2'500'000}}) {
    const std::string bytes(size, 'p');
    auto writer = make_sealing_writer(*t_.run(hot.create("b", "k", sealed_size(size))), t_.arena(), key_, salt_of(1));
    ASSERT_TRUE(t_.append(*writer, bytes, 1 * MiB));
    ObjectInfo info;
    info.size = size;
    ASSERT_TRUE(t_.run(writer->commit(std::move(info), {})));
    for (int round = 0; round < 3; ++round) {
      auto below = *t_.run(hot.open("b", "k"));
      EXPECT_EQ(below->info().size, size);
      const std::vector<SealedPart> parts = {{size, salt_of(1)}};
      auto reader = make_opening_reader(below, t_.arena(), key_, parts, "b/k");
      ASSERT_TRUE(reader) << describe(reader.error());
      EXPECT_TRUE(*t_.read(**reader, 0, size) == bytes) << size;
      if (const auto kept = hot.hot("b", "k")) {
        const memory::Chunk piece = kept->peek(0, std::min<size_t>(size, 16));
        EXPECT_EQ(as_text(piece.bytes).find(std::string(std::min<size_t>(size, 8), 'p')),
                  size == 1 ? as_text(piece.bytes).find('p') : std::string::npos);
      }
    }
  }
}

TEST_F(SealedObjectTest, TheEngineTellsBothSizesAfterARestart) {
  t_.make_bucket("b");
  for (const size_t size : {size_t{10}, size_t{300'000}}) {
    const std::string bytes = pattern(size, 1);
    const std::string key = std::to_string(size);
    auto writer =
        make_sealing_writer(*t_.run(t_.store->create("b", key, sealed_size(size))), t_.arena(), key_, salt_of(1));
    ASSERT_TRUE(t_.append(*writer, bytes, 1 * MiB));
    ObjectInfo info;
    info.size = size;
    ASSERT_TRUE(t_.run(writer->commit(std::move(info), {})));
    writer.reset();
    t_.close();
    t_.open();
    const auto stat = t_.run(t_.store->stat("b", key));
    ASSERT_TRUE(stat);
    EXPECT_EQ(stat->size, size);
    EXPECT_EQ(stat->stored_size, sealed_size(size));
    EXPECT_EQ(t_.run(t_.store->list("b", {}))->entries.back().info.size, size);
    const std::vector<SealedPart> parts = {{size, salt_of(1)}};
    auto reader = make_opening_reader(*t_.run(t_.store->open("b", key)), t_.arena(), key_, parts, "b/k");
    EXPECT_TRUE(*t_.read(**reader, 0, size) == bytes);
  }
}

}  // namespace
}  // namespace verbena::store
