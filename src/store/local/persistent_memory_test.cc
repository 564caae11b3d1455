// Persistent memory of the machine: what can be tested without any.
#include "store/local/persistent_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

// A mapping that is not persistent: for what does not depend on that.
std::unique_ptr<MappedMemory> mapped(uint64_t size, int* file = nullptr) {
  Fd fd(::memfd_create("pmem", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  if (file != nullptr) *file = fd.get();
  void* const base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  EXPECT_NE(base, MAP_FAILED);
  return std::make_unique<MappedMemory>(std::move(fd), static_cast<std::byte*>(base), size);
}

TEST(PersistentMemory, ReadsWhatItStored) {
  ASSERT_NE(line_write_back(), "");
  const auto memory = mapped(64 * KiB);
  const std::string bytes = conformance::pattern(10'000, 1);
  EXPECT_TRUE(memory->store(101, as_bytes(bytes)));
  EXPECT_TRUE(memory->flush(101, bytes.size()));
  memory->fence();
  EXPECT_TRUE(memory->store_number(64, 42));
  std::string back(bytes.size(), '\0');
  EXPECT_TRUE(memory->load(std::as_writable_bytes(std::span(back)), 101));
  EXPECT_EQ(back, bytes);
}

TEST(PersistentMemory, ALineThatCannotBeTouchedIsAnErrorAndNotTheEnd) {
  int file = -1;
  const auto memory = mapped(64 * KiB, &file);
  ASSERT_EQ(::ftruncate(file, 32 * KiB), 0);  // SIGBUS behind, as a bad block of persistent memory has it
  std::array<std::byte, 200> bytes{};
  EXPECT_TRUE(memory->load(bytes, 32 * KiB - 200));
  EXPECT_FALSE(memory->load(bytes, 32 * KiB - 100));
  EXPECT_FALSE(memory->store(32 * KiB - 100, bytes));
  EXPECT_FALSE(memory->store_number(40 * KiB, 1));
  EXPECT_FALSE(memory->flush(40 * KiB, 100));
  EXPECT_TRUE(memory->store(0, bytes));
}

TEST(PersistentMemory, AFileSystemWithoutDaxIsRefusedInWords) {
  std::string name = std::filesystem::temp_directory_path() / "verbena-pmem-XXXXXX";
  const std::filesystem::path folder = ::mkdtemp(name.data());
  std::string trouble;
  if (check_persistent_memory(folder, trouble)) GTEST_SKIP() << folder << " is on a DAX file system";
  EXPECT_NE(trouble.find(folder.string()), std::string::npos) << trouble;
  EXPECT_NE(trouble.find("-o dax"), std::string::npos) << trouble;
  const auto opened = real_persistent_memories().open(folder, 1 * MiB, trouble);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error(), Errc::unsupported);
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "nothing is left there";

  TestStore t;
  t.options.pmem = folder;
  t.options.trouble = &trouble;
  EXPECT_EQ(t.try_open().error(), Errc::unsupported);
  EXPECT_NE(trouble.find("MAP_SYNC"), std::string::npos) << trouble;
  t.options.pmem.clear();
  t.open();
  const auto version = read_small_file(real_file_system(), t.options.directory / "VERSION", 100);
  EXPECT_EQ(*version, "verbena local store, format 7\n") << "an older program can still open it";
  std::filesystem::remove_all(folder);
}

TEST(PersistentMemory, OtherNamesThanAFolderAreRefusedInWords) {
  for (const char* name : {"/dev/null", "/proc/self/status", "/there/is/none"}) {
    std::string trouble;
    EXPECT_FALSE(real_persistent_memories().open(name, 1 * MiB, trouble));
    EXPECT_NE(trouble.find(name), std::string::npos) << trouble;
  }
}

}  // namespace
}  // namespace verbena::store::local
