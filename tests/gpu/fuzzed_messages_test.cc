// Thousands of messages of a client on this host that lies about its GPU's memory: handles, descriptors, devices, sizes
// and windows that are changed at random, by a seed. Each is refused, or moves the bytes that it names; the server
// serves others all the while, and has unmapped everything at the end.
#include <fcntl.h>
#include <sys/mman.h>

#include <map>
#include <optional>
#include <random>

#include "base/fd.h"
#include "memory/cuda_physical.h"
#include "raw_session.h"

namespace verbena::matrix {
namespace {

using memory::cuda::Driver;
using memory::cuda::Physical;
using native::wire::Device;
using native::wire::Type;

constexpr size_t least = 2 * mib;  // the driver's granularity
constexpr size_t object_size = 1000;

// Where memory that the server knows by a number is, in the addresses of this process.
struct Part {
  uint64_t address = 0, size = 0;
};
using Layout = std::vector<Part>;

// Memory whose bytes are known at any time.
class Known {
 public:
  Known(uint64_t address, size_t size, uint64_t seed) : address_(address), bytes_(random_bytes(size, seed)) {
    double_poke(address, bytes_.data(), size);
  }
  bool has(uint64_t address) const { return address >= address_ && address - address_ < bytes_.size(); }
  std::byte& at(uint64_t address) { return bytes_[address - address_]; }
  void expect_unchanged() const {
    std::vector<std::byte> now(bytes_.size());
    double_peek(now.data(), address_, now.size());
    EXPECT_TRUE(same(now, bytes_));
  }

 private:
  uint64_t address_;
  std::vector<std::byte> bytes_;
};

class FuzzedMessages : public Direct {
 protected:
  void SetUp() override {
    Direct::SetUp();
    double_delay(0);
    ASSERT_TRUE(http().put("bucket", "key", object_));
    raw_session_ = session();
  }
  void TearDown() override {
    raw_session_.reset();
    EXPECT_TRUE(eventually([&] { return double_mapped() == before.in_driver; }));
    EXPECT_EQ(Kept().mapped, before.mapped);
    EXPECT_EQ(Kept().lost, before.lost);
    Direct::TearDown();
  }

  uint64_t below(uint64_t end) { return random_() % end; }
  bool percent(unsigned chance) { return below(100) < chance; }
  uint64_t changed(uint64_t size) {
    const uint64_t some[] = {0,         1,    size - 1,          size + 1,   size / 2,         2 * size,
                             random_(), 4096, UINT64_MAX - size, UINT64_MAX, 1ull << below(64)};
    return some[below(std::size(some))];
  }
  RawSession raw() { return RawSession(*raw_session_); }
  void open_anew() {
    raw_session_ = session();
    numbers_.clear();
    handed_over_.clear();
  }

  Device by_handle(const OnDevice& memory) {
    const Driver& driver = **Driver::get(platform());
    const auto shared = driver.share(*driver.allocation(memory.address()));
    EXPECT_TRUE(shared) << shared.error().text;
    return {.kind = is_hip() ? native::wire::device_by_hip_handle : native::wire::device_by_handle,
            .device = shared->device,
            .size = shared->size,
            .handle = shared->handle};
  }
  void change_fields(Device& device) {
    if (percent(40)) {
      for (uint64_t times = 1 + below(3); times > 0; --times) {
        device.handle[below(device.handle.size())] ^= std::byte(1u << below(8));
      }
    }
    if (percent(10)) device.device[below(device.device.size())] ^= std::byte(1u << below(8));
    if (percent(10)) device.kind = static_cast<uint8_t>(below(6));
    if (percent(30)) device.size = changed(device.size);
    if (percent(10)) device.handed_over = static_cast<uint32_t>(changed(device.handed_over));
    if (!device.pieces.empty() && percent(20)) {
      uint64_t& size = device.pieces[below(device.pieces.size())];
      size = changed(size);
    }
    if (!device.pieces.empty() && percent(10)) device.pieces.pop_back();
    if (percent(10)) device.pieces.push_back(least);
  }
  static std::vector<std::byte> encoded(const Device& device) {
    std::vector<std::byte> space(8192);
    native::wire::Writer out(space);
    encode(out, device);
    space.resize(out.size());
    return space;
  }
  void change_bytes(std::vector<std::byte>& bytes) {
    switch (below(4)) {
      case 0:
        bytes[below(bytes.size())] = std::byte(below(256));
        break;
      case 1:
        bytes.resize(below(bytes.size()));
        break;
      case 2:
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size())), std::byte(below(256)));
        break;
      default:
        bytes[below(bytes.size())] ^= std::byte(1u << below(8));
    }
  }
  // A message, which the server answers in time whatever it says.
  RawSession::Answer answered(Type type, Bytes body) {
    auto answer = raw().send_bytes(type, body);
    EXPECT_NE(answer.code, Errc::timed_out);
    EXPECT_NE(answer.code, Errc::closed);
    return answer;
  }

  // Places of `size` bytes from `at` on; nothing: it is not inside.
  static std::optional<Layout> places(const Layout& memory, uint64_t at, uint64_t size) {
    Layout out;
    for (const Part& part : memory) {
      if (at < part.size) {
        const uint64_t some = std::min(size, part.size - at);
        out.push_back({part.address + at, some});
        size -= some;
        at = 0;
      } else {
        at -= part.size;
      }
      if (size == 0) return out;
    }
    return std::nullopt;
  }
  void note(std::vector<Known*>& all, const Layout& where) {
    size_t done = 0;
    for (const Part& part : where) {
      for (uint64_t i = 0; i < part.size; ++i) {
        for (Known* one : all) {
          if (one->has(part.address + i)) one->at(part.address + i) = object_[done];
        }
        ++done;
      }
    }
    EXPECT_EQ(done, object_.size());
  }
  // A GET of the object into a window, or a PUT of its bytes, perhaps of memory that is not there.
  void use_window(uint64_t number, uint64_t at, uint64_t size, std::vector<Known*>& all, const Layout* memory) {
    const bool puts = percent(20);
    const auto access = puts ? fabric::Access::server_reads : fabric::Access::server_writes;
    bool unfinished = false;
    const auto answer = raw().send(
        puts ? Type::put : Type::get, [&](client::NativeStream::Body& body, client::NativeCall& call) -> Result<void> {
          VB_ASSIGN(call.lent,
                    dynamic_cast<fabric::DeviceLink&>(body.link).lend_device({number, at, size, &unfinished}, access));
          body.flags |= native::wire::flag_window;
          const fabric::WindowDescriptor& lent = call.lent->descriptor();
          const native::wire::Descriptor window{lent.base, lent.size, lent.key};
          if (puts) {
            native::wire::Put put;
            put.bucket = "bucket";
            put.key = "put";
            put.window = window;
            put.size = object_size;
            encode(body.out, put);
          } else {
            native::wire::Get get;
            get.bucket = "bucket";
            get.key = "key";
            get.window = window;
            encode(body.out, get);
          }
          return {};
        });
    EXPECT_NE(answer.code, Errc::timed_out);
    const bool fits = at <= UINT64_MAX - size && size >= object_size;
    const auto where =
        memory != nullptr && fits && places(*memory, at, size) ? places(*memory, at, object_size) : std::nullopt;
    EXPECT_EQ(answer.code == Errc::ok, where.has_value())
        << static_cast<int>(answer.code) << " at " << at << " of " << size;
    if (answer.code != Errc::ok || !where) return;
    ++moved_;
    if (!puts) return note(all, *where);
    std::vector<std::byte> held(object_size);
    size_t done = 0;
    for (const Part& part : *where) {
      double_peek(held.data() + done, part.address, part.size);
      done += part.size;
    }
    EXPECT_TRUE(same(stored("put", object_size), held));
  }
  void end_some(uint64_t number) {
    std::vector<std::byte> space(8);
    native::wire::Writer out(space);
    encode(out, native::wire::DeviceEnd{number});
    EXPECT_EQ(answered(Type::device_end, space).code, Errc::ok);
    numbers_.erase(number);
  }

  const std::vector<std::byte> object_ = random_bytes(object_size, 7);
  std::mt19937_64 random_{3838};
  std::unique_ptr<client::NativeSession> raw_session_;
  std::map<uint64_t, Layout> numbers_;                     // of memory that the server has mapped
  std::map<uint32_t, std::vector<uint64_t>> handed_over_;  // the addresses of pieces; 0: a foreign file
  unsigned moved_ = 0;
};

TEST_F(FuzzedMessages, HandlesAndWindowsMoveWhatTheyNameOrAreRefused) {
  constexpr size_t size = 75 * 4096;
  OnDevice left(size), own(size), right(size), others(size, 1);
  Known all[] = {
      {left.address(), size, 1}, {own.address(), size, 2}, {right.address(), size, 3}, {others.address(), size, 4}};
  std::vector<Known*> known;
  for (Known& one : all) known.push_back(&one);
  const Client other = local();
  OnDevice their_memory(mib);
  const Buffer their_window = *other.register_memory(their_memory.all());
  const Device shared = by_handle(own);
  unsigned mapped = 0, refused = 0;
  for (unsigned turn = 0; turn < 3000; ++turn) {
    if (turn % 500 == 499) open_anew();
    Device device = shared;
    if (percent(70)) change_fields(device);
    auto body = encoded(device);
    if (percent(20)) change_bytes(body);
    const auto answer = answered(Type::device, body);
    ++(answer.code == Errc::ok ? mapped : refused);
    if (answer.code == Errc::ok) {
      const auto number = native::wire::decode_device_shared(answer.body);
      ASSERT_TRUE(number);
      const auto said = native::wire::decode_device(body);
      ASSERT_TRUE(said && said->size <= size && said->size != 0);
      numbers_[number->number] = {{own.address(), said->size}};
    }
    const bool known_number = !numbers_.empty() && percent(85);
    auto at_number = numbers_.begin();
    if (known_number) std::advance(at_number, below(numbers_.size()));
    const uint64_t number = known_number ? at_number->first : (percent(50) ? 0xfffff - below(9000) : below(0xfffff));
    const auto found = numbers_.find(number);
    const uint64_t at = percent(70) ? below(size) : changed(size);
    use_window(number, at, percent(70) ? object_size : changed(object_size), known,
               found == numbers_.end() ? nullptr : &found->second);
    if (percent(60)) end_some(percent(90) ? number : changed(number));
    if (turn % 100 == 0) {
      const auto bytes = random_bytes(mib, turn);
      their_memory.set(bytes);
      const auto put = other.put("bucket", "theirs", their_window);
      ASSERT_TRUE(put) << put.error().message;
      EXPECT_EQ(put->transfer.device_path, DevicePath::direct) << put->transfer.fell_back_reason;
      EXPECT_TRUE(same(stored("theirs", mib), bytes));
    }
  }
  for (const Known& one : all) one.expect_unchanged();
  EXPECT_GT(mapped, 300u);
  EXPECT_GT(refused, 300u);
  EXPECT_GT(moved_, 300u);
}

TEST_F(FuzzedMessages, DescriptorsAndPiecesToo) {
  InPieces own({least, 2 * least, least}), others({least, least}, 1);
  Known all[] = {{own.address(), own.size(), 1}, {others.address(), others.size(), 2}};
  std::vector<Known*> known;
  for (Known& one : all) known.push_back(&one);
  const Driver& driver = **Driver::get(platform());
  struct File {
    Fd descriptor;
    uint64_t address = 0, size = 0;
  };
  std::vector<File> files;
  const auto add = [&](int device, uint64_t begin, uint64_t size) {
    const auto piece = Physical::behind(driver, {.device = device, .begin = begin, .size = size});
    ASSERT_TRUE(piece) << piece.error().text;
    files.push_back({*(*piece)->descriptor(), begin, size});
  };
  add(0, own.address(), least);
  add(0, own.address() + least, 2 * least);
  add(0, own.address() + 3 * least, least);
  add(1, others.address(), least);
  files.push_back({Fd(::memfd_create("foreign", MFD_CLOEXEC))});
  files.push_back({Fd(::open("/dev/null", O_RDWR | O_CLOEXEC))});
  const Device shared{.kind = is_hip() ? native::wire::device_by_hip_pieces : native::wire::device_by_pieces,
                      .device = *driver.name_of(0)};
  unsigned mapped = 0, refused = 0;
  for (unsigned turn = 0; turn < 1500; ++turn) {
    if (turn % 300 == 299) open_anew();
    Device device = shared;
    std::vector<int> given;
    std::vector<uint64_t> addresses;
    for (uint64_t count = 1 + below(4); count > 0; --count) {
      const File& file = files[percent(90) ? below(3) : below(files.size())];
      given.push_back(file.descriptor.get());
      addresses.push_back(file.size == 0 ? 0 : file.address);
      device.pieces.push_back(file.size == 0 ? least : file.size);
      device.size += device.pieces.back();
    }
    const auto number_of_files = raw().hand_over(given);
    if (!number_of_files) {  // too many wait, which no message has named
      ASSERT_EQ(number_of_files.error(), Errc::slow_down);
      open_anew();
      continue;
    }
    handed_over_[*number_of_files] = addresses;
    device.handed_over = *number_of_files;
    if (percent(50)) change_fields(device);
    auto body = encoded(device);
    if (percent(20)) change_bytes(body);
    const auto answer = answered(Type::device, body);
    ++(answer.code == Errc::ok ? mapped : refused);
    if (answer.code == Errc::ok) {
      const auto number = native::wire::decode_device_shared(answer.body);
      const auto said = native::wire::decode_device(body);
      ASSERT_TRUE(number && said);
      const auto named = handed_over_.find(said->handed_over);
      ASSERT_TRUE(named != handed_over_.end() && named->second.size() == said->pieces.size());
      Layout layout;
      for (size_t i = 0; i < said->pieces.size(); ++i) {
        ASSERT_NE(named->second[i], 0u);
        ASSERT_FALSE(all[1].has(named->second[i]) && said->device == *driver.name_of(0));
        layout.push_back({named->second[i], said->pieces[i]});
      }
      handed_over_.erase(named);
      numbers_[number->number] = layout;
    }
    if (numbers_.empty()) continue;
    auto one = numbers_.begin();
    std::advance(one, below(numbers_.size()));
    uint64_t size = 0;
    for (const Part& part : one->second) size += part.size;
    const uint64_t at = percent(70) ? below(size) : changed(size);
    use_window(one->first, at, percent(70) ? object_size : changed(object_size), known, &one->second);
    if (percent(60)) end_some(one->first);
  }
  for (const Known& one : all) one.expect_unchanged();
  EXPECT_GT(mapped, 200u);
  EXPECT_GT(refused, 200u);
  EXPECT_GT(moved_, 200u);
}

}  // namespace
}  // namespace verbena::matrix
