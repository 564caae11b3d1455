// Persistent memory of the machine: what can be tested without any.
#include "store/local/persistent_memory.h"

#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/mman.h>

#include <fstream>

#include "base/checksum.h"
#include "store/local/dax_node.h"
#include "store/local/pmem_log.h"
#include "store/local/pmem_stand_in.h"
#include "store/local/test_faulty_file_system.h"
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
  const MappedMemory::Mapping all{.base = static_cast<std::byte*>(base), .length = size, .size = size};
  return std::make_unique<MappedMemory>(PmemPlace{}, std::move(fd), all);
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

// --- Device-dax nodes
// ----------------------------------------------------------------------------------------------------

// A file for the node's memory, and what the kernel would tell of it.
class DaxNodes : public ::testing::Test {
 protected:
  static constexpr uint64_t log_size = PmemLog::size_min, node_size = 4 * MiB;

  DaxNodes() {
    std::string name = std::filesystem::temp_directory_path() / "verbena-dax-XXXXXX";
    root = ::mkdtemp(name.data());
    stand_in.sys = root / "sys";
    node = root / "dax0.0";
    region = stand_in.sys / "devices/ndbus0/region0";
    device = region / "dax0.1/dax0.0";
    std::filesystem::create_directories(device);
    std::filesystem::create_directories(stand_in.sys / "bus/dax");
    std::filesystem::create_directories(stand_in.sys / "dev/char");
    std::filesystem::create_directory_symlink(device, stand_in.sys / "dev/char/0:0");
    std::filesystem::create_directory_symlink(stand_in.sys / "bus/dax", device / "subsystem");
    write(device / "align", "2097152");
    write(region / "devtype", "nd_pmem");
    write(region / "persistence_domain", "memory_controller");
    resize(node_size);
    stand_in_for_dax_nodes(&stand_in);
    t.options.pmem = node;
    t.options.trouble = &trouble;
    t.options.write_behind_after = std::chrono::hours(1);
  }
  ~DaxNodes() override {
    t.close();
    stand_in_for_dax_nodes(nullptr);
    std::filesystem::remove_all(root);
  }
  static void write(const std::filesystem::path& file, const std::string& text) {
    std::ofstream(file, std::ios::trunc) << text << '\n';
  }
  void resize(uint64_t size) const {
    std::ofstream(node, std::ios::app);
    std::filesystem::resize_file(node, size);
    write(device / "size", std::to_string(size));
  }
  void write_node(uint64_t at, const std::string& bytes) const {
    std::fstream file(node, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file << bytes;
  }
  std::string bytes() const {
    std::string all(std::filesystem::file_size(node), '\0');
    std::ifstream(node, std::ios::binary).read(all.data(), static_cast<std::streamsize>(all.size()));
    return all;
  }
  void format(bool force = false) { ASSERT_TRUE(format_dax_node(node, log_size, force, trouble)) << trouble; }
  // Neither a start nor a look takes it, nor a format where `unfit`.
  void expect_refusal(const std::string& words, Errc as, bool unfit = false) {
    const std::string before = bytes();
    const auto opened = real_persistent_memories().open(node, log_size, trouble);
    ASSERT_FALSE(opened) << words;
    EXPECT_EQ(opened.error(), as) << trouble;
    EXPECT_NE(trouble.find(words), std::string::npos) << trouble;
    EXPECT_NE(trouble.find(node.string()), std::string::npos) << trouble;
    std::string checked;
    EXPECT_EQ(check_persistent_memory(node, checked).has_value(), as == Errc::service_unavailable) << checked;
    if (unfit) {
      EXPECT_FALSE(format_dax_node(node, log_size, /*force=*/true, trouble)) << trouble;
      EXPECT_NE(trouble.find(words), std::string::npos) << trouble;
    }
    EXPECT_EQ(bytes(), before);
  }
  // What a process that is killed leaves: its stores are there, and nothing was given back.
  void kill_the_server() {
    fs.fail_at(0, FaultyFileSystem::Fault::crash);
    t.close();
    fs.crash(FaultyFileSystem::Loss::unsynced, 1);
  }

  std::filesystem::path root, node, region, device;
  DaxStandIn stand_in;
  std::string trouble;
  FaultyFileSystem fs;
  TestStore t{&fs};
};

TEST_F(DaxNodes, KeepWhatWasAcknowledgedWhenTheServerIsKilled) {
  format();
  t.open();
  t.make_bucket("b");
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(t.put("b", "k" + std::to_string(i), conformance::pattern(3000, i)));
  ASSERT_TRUE(t.remove("b", "k3"));
  kill_the_server();
  t.open();
  for (int i = 0; i < 20; ++i) {
    const auto got = t.get("b", "k" + std::to_string(i));
    if (i == 3) {
      EXPECT_EQ(got.error(), Errc::no_such_key);
    } else {
      EXPECT_EQ(*got, conformance::pattern(3000, i));
    }
  }
  t.close();
  t.options.pmem.clear();
  t.open();  // after an orderly stop nothing is there alone
  EXPECT_EQ(*t.get("b", "k19"), conformance::pattern(3000, 19));
}

TEST_F(DaxNodes, BeyondTheLogBelongToNobody) {
  write_node(2 * MiB, "not ours");
  format();
  t.open();
  t.make_bucket("b");
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(t.put("b", "k", conformance::pattern(60'000, i)));
  t.close();
  EXPECT_EQ(bytes().substr(2 * MiB, 8), "not ours");
}

TEST_F(DaxNodes, AreNotFormattedByAStart) {
  expect_refusal("is not formatted", Errc::unsupported);
  write_node(100, "other data");
  t.options.accept_data_loss = true;  // says nothing of others' data
  EXPECT_FALSE(t.try_open());
  EXPECT_NE(trouble.find("verbena device format " + node.string()), std::string::npos) << trouble;
  EXPECT_EQ(bytes().substr(100, 10), "other data");
}

TEST_F(DaxNodes, WithDataAreFormattedByForceAlone) {
  const std::string holds = "holds data. Nothing was changed", log = "has the log of a store. Nothing was changed";
  write_node(4096 + log_size - 1, "x");  // in the last byte that the log will have
  EXPECT_FALSE(format_dax_node(node, log_size, /*force=*/false, trouble));
  EXPECT_NE(trouble.find(holds), std::string::npos) << trouble;
  EXPECT_EQ(look_at_dax_node(node, trouble)->log_size, 0u);
  format(/*force=*/true);
  EXPECT_EQ(look_at_dax_node(node, trouble)->log_size, log_size);
  EXPECT_FALSE(format_dax_node(node, log_size, /*force=*/false, trouble));
  EXPECT_NE(trouble.find(log), std::string::npos) << trouble;
}

TEST_F(DaxNodes, ThatAreFormattedAgainHaveNoLogAndTheStoreMissesIt) {
  format();
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "k", "1"));
  kill_the_server();
  format(/*force=*/true);
  ASSERT_FALSE(t.try_open());
  EXPECT_NE(trouble.find("is missing (data.pmem: " + node.string() + ")"), std::string::npos) << trouble;
  t.options.accept_data_loss = true;
  t.open();
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
}

TEST_F(DaxNodes, OfMemoryThatForgetsAreRefused) {
  format();
  write(region / "devtype", "nd_volatile");
  expect_refusal("does not know it as persistent", Errc::unsupported, /*unfit=*/true);
  std::filesystem::remove(region / "devtype");  // as soft-reserved memory, and CXL's that is volatile
  expect_refusal("does not know it as persistent", Errc::unsupported, /*unfit=*/true);
  write(region / "devtype", "nd_pmem");
  write(region.parent_path() / "provider", "virtio-pmem");
  expect_refusal("wants a flush by the host", Errc::unsupported, /*unfit=*/true);
  write(region.parent_path() / "provider", "ACPI.NFIT");
  EXPECT_TRUE(real_persistent_memories().open(node, log_size, trouble)) << trouble;
}

TEST_F(DaxNodes, ThatAreAnotherKindOfDeviceAreRefused) {
  std::filesystem::remove(device / "subsystem");
  std::filesystem::create_directories(stand_in.sys / "class/mem");
  std::filesystem::create_directory_symlink(stand_in.sys / "class/mem", device / "subsystem");
  expect_refusal("is no device-dax node", Errc::unsupported, /*unfit=*/true);
  // Nor are they opened.
  const Fd watch(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  ASSERT_GE(::inotify_add_watch(watch.get(), node.c_str(), IN_OPEN), 0);
  EXPECT_FALSE(real_persistent_memories().open(node, log_size, trouble));
  EXPECT_FALSE(look_at_dax_node(node, trouble));
  EXPECT_FALSE(format_dax_node(node, log_size, /*force=*/true, trouble));
  std::array<char, 256> event;
  EXPECT_EQ(::read(watch.get(), event.data(), event.size()), -1);
}

TEST_F(DaxNodes, WhoseSizeOrAlignmentIsNotKnownAreRefused) {
  format();
  for (const char* alignment : {"", "0", "3000000", "2097152 "}) {
    write(device / "align", alignment);
    expect_refusal("does not tell its size or its alignment", Errc::unsupported, /*unfit=*/true);
  }
}

TEST_F(DaxNodes, ThatHaveShrunkAreRefused) {
  format();
  resize(2 * MiB);
  EXPECT_TRUE(real_persistent_memories().open(node, log_size, trouble)) << trouble;
  ASSERT_TRUE(format_dax_node(node, log_size + 4096, /*force=*/true, trouble)) << trouble;
  resize(1 * MiB);
  expect_refusal("the namespace has shrunk", Errc::corrupt_object);
  resize(4 * MiB);
  EXPECT_TRUE(real_persistent_memories().open(node, log_size, trouble)) << "larger than before: " << trouble;
}

TEST_F(DaxNodes, WhoseLogWouldReachBeyondAllMemoryAreRefused) {
  format();
  std::array<uint64_t, 2> top{0 - uint64_t(4096), 0};  // a size, and its checksum
  top[1] = crc32c(std::as_bytes(std::span(top).first(1)));
  write_node(8, std::string(reinterpret_cast<const char*>(top.data()), 12));
  expect_refusal("the namespace has shrunk", Errc::corrupt_object);
}

TEST_F(DaxNodes, AreMappedInPiecesOfTheirAlignment) {
  write(device / "align", std::to_string(1 * GiB));
  EXPECT_FALSE(format_dax_node(node, log_size, false, trouble));
  EXPECT_NE(trouble.find("has 4 MiB, and a log needs 1 GiB"), std::string::npos) << trouble;
  write(device / "align", "4096");
  format();
  const auto memory = real_persistent_memories().open(node, log_size, trouble);
  ASSERT_TRUE(memory) << trouble;
  EXPECT_EQ((*memory)->size(), log_size);
}

TEST_F(DaxNodes, WhoseFirstPageIsDamagedAreRefusedInWords) {
  format();
  write_node(10, "\x11");  // a log of 64 KiB more, which the node has room for
  expect_refusal("is damaged at its beginning", Errc::corrupt_object);
  EXPECT_NE(trouble.find("verbena device format --force " + node.string()), std::string::npos) << trouble;
}

// Whatever became of the page before the log: a format makes it again, and nothing else.
TEST_F(DaxNodes, WhoseFirstPageAloneIsLostKeepTheirLog) {
  format();
  t.open();
  t.make_bucket("b");
  for (const std::string& lost : {std::string("\x11"), std::string(4096, '\0'), std::string(24, '\xff')}) {
    ASSERT_TRUE(t.put("b", "k", conformance::pattern(3000, lost.size())));
    kill_the_server();
    const std::string before = bytes();
    write_node(lost.size() == 1 ? 10 : 0, lost);
    expect_refusal("the log behind that is whole", Errc::corrupt_object);
    EXPECT_NE(trouble.find("nowhere else"), std::string::npos) << trouble;
    EXPECT_NE(trouble.find("verbena device format " + node.string()), std::string::npos) << trouble;
    const auto made = format_dax_node(node, 2 * log_size, /*force=*/false, trouble);
    ASSERT_TRUE(made) << trouble;
    EXPECT_TRUE(made->is_kept && made->is_held);
    EXPECT_EQ(made->log_size, log_size);
    EXPECT_EQ(bytes(), before);
    t.open();
    EXPECT_EQ(*t.get("b", "k"), conformance::pattern(3000, lost.size()));
  }
}

TEST_F(DaxNodes, WithOtherDataBeforeAWholeLogAreNotFormatted) {
  format();
  t.open();
  t.close();
  write_node(0, std::string(100, 'x'));
  EXPECT_FALSE(format_dax_node(node, log_size, /*force=*/false, trouble));
  EXPECT_NE(trouble.find("holds data. Nothing was changed"), std::string::npos) << trouble;
}

TEST_F(DaxNodes, TellThatTheirLogIsHeld) {
  format();
  EXPECT_FALSE(look_at_dax_node(node, trouble)->is_held);
  t.open();
  EXPECT_TRUE(look_at_dax_node(node, trouble)->is_held);
  kill_the_server();
  EXPECT_FALSE(format_dax_node(node, log_size, /*force=*/false, trouble));
  EXPECT_NE(trouble.find("is running, or was not stopped in order. Nothing was changed"), std::string::npos) << trouble;
  t.open();
  t.close();
  EXPECT_FALSE(look_at_dax_node(node, trouble)->is_held);
}

// A poisoned line: here a page that the file has lost.
TEST_F(DaxNodes, WhoseFirstPageCannotBeReadAreRefusedInWords) {
  format();
  std::filesystem::resize_file(node, 0);
  const auto opened = real_persistent_memories().open(node, log_size, trouble);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error(), Errc::io_error);
  EXPECT_NE(trouble.find("ndctl clear-errors"), std::string::npos) << trouble;
  EXPECT_FALSE(format_dax_node(node, log_size, /*force=*/false, trouble));
  EXPECT_NE(trouble.find("bad block"), std::string::npos) << trouble;
  EXPECT_FALSE(format_dax_node(node, log_size, /*force=*/true, trouble));
  EXPECT_NE(trouble.find("cannot be written"), std::string::npos) << trouble;
}

TEST_F(DaxNodes, BelongToOneServerByWhateverName) {
  format();
  t.open();
  expect_refusal("is in use by another server", Errc::service_unavailable);
  EXPECT_FALSE(format_dax_node(node, log_size, /*force=*/true, trouble));
  // Another inode with the same number, as mknod makes one in a container.
  const auto first = std::exchange(node, root / "other");
  std::filesystem::copy_file(first, node);
  expect_refusal("is in use by another server by another name, or another process has the lock of " +
                     (stand_in.sys / "dev/char/0:0/size").string(),
                 Errc::service_unavailable);
}

// Locks do not reach a container that has a /dev and a /sys of its own.
TEST_F(DaxNodes, WithAnotherStoresLogThatWasNotGivenBackAreRefused) {
  format();
  t.open();
  t.make_bucket("b");
  kill_the_server();  // nothing is in the log
  TestStore other;
  other.options.pmem = node;
  other.options.trouble = &trouble;
  ASSERT_FALSE(other.try_open());
  EXPECT_NE(trouble.find("another store, which is running, or was not stopped in order"), std::string::npos) << trouble;
  t.open();
  t.close();
  ASSERT_TRUE(other.try_open()) << trouble;
}

TEST_F(DaxNodes, TellTheirBadBlocks) {
  write(region / "badblocks", "0 8\n8192 2\n100000 1");
  EXPECT_EQ(dax_facts(device).bad_bytes, 11 * 512u) << "of the region, since the node's place is not told";
  write(region / "resource", "0x100000000");
  write(device / "resource", "0x100200000");  // 2 MiB behind: 4096 sectors
  EXPECT_EQ(dax_facts(device).bad_bytes, 2 * 512u);
}

}  // namespace
}  // namespace verbena::store::local
