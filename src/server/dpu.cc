#include "server/dpu.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <iterator>

#include "rdma/transport.h"

namespace verbena::server {
namespace {

constexpr size_t name_max = 200;  // characters of a name that are read and shown

// As the firmware names them: NVIDIA (formerly Mellanox) BlueField, AMD (formerly Pensando) Elba and its like.
constexpr std::array<std::string_view, 2> known{"bluefield", "pensando"};

// A file of the kernel as one line of printable characters; a device tree separates its texts by zeros.
std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string out;
  for (std::istreambuf_iterator<char> at(file), end; at != end && out.size() < name_max; ++at) {
    out += *at > ' ' && *at < 127 ? *at : ' ';
  }
  out.erase(std::find_if(out.rbegin(), out.rend(), [](char c) { return c != ' '; }).base(), out.end());
  return out;
}

std::string joined(std::string first, const std::string& second) {
  if (!first.empty() && !second.empty()) first += ' ';
  return first + second;
}

bool names_a_dpu(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::any_of(known, [&](std::string_view name) { return text.find(name) != std::string::npos; });
}

std::string or_none(const std::string& text) { return text.empty() ? "none" : text; }

}  // namespace

std::expected<std::string, std::string> check_dpu(const Config::Dpu& dpu, const std::filesystem::path& root,
                                                  bool has_aes) {
  if (!dpu.enabled) return std::string();
  const auto tree = root / "proc/device-tree", dmi = root / "sys/class/dmi/id";
  const std::string said =
      fmt::format("device tree: {}; DMI: {}", or_none(joined(text_of(tree / "model"), text_of(tree / "compatible"))),
                  or_none(joined(text_of(dmi / "sys_vendor"), text_of(dmi / "product_name"))));
  if (!names_a_dpu(said)) {
    return std::unexpected(
        "dpu.enabled: this machine does not call itself a DPU that is known, BlueField or Pensando (" + said +
        "); without the key the server runs here as on any machine");
  }
  if (dpu.enable_crypto && !has_aes) {
    return std::unexpected(
        "dpu.enable_crypto: this processor has no AES instructions; rdma.encryption: required encrypts here, too, by "
        "ChaCha20-Poly1305, without this key");
  }
  return "dpu: this server runs on a DPU (" + said + ")";
}

std::expected<std::string, std::string> check_dpu_rdma(const Config::Dpu& dpu, std::string_view provider,
                                                       std::string_view device) {
  if (!dpu.enable_rdma) return std::string();
  if (provider.empty() || rdma::transport_of(provider) != rdma::Transport::rdma) {
    return std::unexpected(
        "dpu.enable_rdma: the native door has no RDMA device of this DPU (rdma.enabled, rdma.provider and "
        "rdma.device_name choose one; `verbena doctor` says what is there)");
  }
  return fmt::format("dpu.enable_rdma: the native door's RDMA goes by {} ({})", device, provider);
}

}  // namespace verbena::server
