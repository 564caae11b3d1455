#include "admin/doctor.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>

#include "admin/doctor_gpu.h"
#include "admin/link_encryption.h"
#include "store/local/device_volumes.h"

namespace verbena::admin {
namespace {

class Doctor : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "verbena-doctor-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root = name;
    roots.sys = root / "sys";
    roots.proc = root / "proc";
    roots.run = root / "run";
  }
  void TearDown() override { std::filesystem::remove_all(root); }
  void write(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text << "\n";
  }
  std::filesystem::path root;
  MachineRoots roots;
};

TEST_F(Doctor, WithoutADeviceSaysHowToMakeOneInSoftware) {
  write("sys/module/rdma_rxe/refcnt", "0");
  const Findings findings = check_devices(roots);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].health, Health::warn);
  EXPECT_NE(findings[0].found.find("loaded"), std::string::npos);
  EXPECT_NE(findings[0].mend.find("rdma link add rxe0 type rxe netdev eth0"), std::string::npos);
  EXPECT_EQ(findings[0].command, "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0");
}

TEST_F(Doctor, ADeviceThatCannotHaveVolumesFails) {
  write("disk", "a file");
  for (const auto& [device, why] :
       {std::pair(root / "disk", "is no block device"),
        std::pair(std::filesystem::path("/dev/null"), "is no block device"), std::pair(root / "none", "is missing")}) {
    const Finding finding = check_device(device);
    EXPECT_EQ(finding.health, Health::fail) << device;
    EXPECT_EQ(finding.subject, "device of the data");
    EXPECT_NE(finding.found.find(why), std::string::npos) << finding.found;
    EXPECT_NE(finding.mend.find("data.device"), std::string::npos) << finding.mend;
  }
}

// In a file that stands for a device.
TEST_F(Doctor, TellsAnOverwrittenBeginOfADeviceAndACopyThatIsOlder) {
  using namespace store::local;
  const auto path = root / "disk";
  write("disk", "");
  std::filesystem::resize_file(path, device_size_min);
  const auto file = [&] { return std::move(*real_file_system().open(path, {.write = true})); };
  ASSERT_TRUE(format_device(*file(), 0, device_size_min));
  EXPECT_EQ(judge_device("disk", file()).health, Health::ok);
  std::vector<std::byte> first(device_block), second(device_block);
  ASSERT_TRUE(read_fully(*file(), first, superblock_places[0]));
  ASSERT_TRUE(write_fully(*file(), second, superblock_places[0]));
  Finding finding = judge_device("disk", file());
  EXPECT_EQ(finding.health, Health::fail);
  EXPECT_NE(finding.found.find("begin of disk was overwritten"), std::string::npos) << finding.found;
  EXPECT_NE(finding.mend.find("does not start"), std::string::npos) << finding.mend;
  Superblock newer = *decode_superblock(first);
  ++newer.sequence;
  ASSERT_TRUE(write_fully(*file(), encode(newer), superblock_places[0]));
  finding = judge_device("disk", file());
  EXPECT_EQ(finding.health, Health::warn);
  EXPECT_NE(finding.mend.find("copy 1 of the superblock"), std::string::npos) << finding.mend;
  EXPECT_NE(finding.mend.find("is older"), std::string::npos) << finding.mend;
}

TEST_F(Doctor, DescribesAPortAndItsGids) {
  const std::string port = "sys/class/infiniband/rxe0/ports/1/";
  write(port + "state", "4: ACTIVE");
  write(port + "link_layer", "Ethernet");
  write(port + "rate", "100 Gb/sec");
  write(port + "gids/0", "fe80:0000:0000:0000:5054:00ff:fe12:3456");
  write(port + "gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001");
  write(port + "gids/2", "0000:0000:0000:0000:0000:0000:0000:0000");
  write(port + "gid_attrs/types/1", "RoCE v2");
  const Findings findings = check_devices(roots);
  ASSERT_GE(findings.size(), 1u);
  EXPECT_EQ(findings[0].health, Health::ok) << findings[0].mend;
  EXPECT_EQ(findings[0].subject, "rdma device rxe0 port 1");
  EXPECT_NE(findings[0].found.find("2 GIDs (1 RoCE v2, 1 with an IP address)"), std::string::npos) << findings[0].found;
}

class DoctorOfEncryption : public Doctor {
 protected:
  // The last finding: of the one RDMA device.
  Finding below() {
    const Findings findings = check_encryption(roots);
    EXPECT_EQ(findings.size(), 4u);
    return findings.back();
  }
  bool says(const Finding& finding, const std::string& text) { return finding.found.find(text) != std::string::npos; }
  const std::string port = "sys/class/infiniband/rxe0/ports/1/";
};

TEST_F(DoctorOfEncryption, TellsWhatEncryptsBelowAnRdmaDevice) {
  EXPECT_EQ(below().found, "no RDMA device: TLS protects what goes over tcp");
  write(port + "gid_attrs/ndevs/1", "eth7");
  write("sys/class/net/macsec0/uevent", "INTERFACE=macsec0\nDEVTYPE=macsec");
  write("sys/class/net/macsec0/lower_eth7/mtu", "1500");
  write("sys/class/net/vlan9/uevent", "INTERFACE=vlan9\nDEVTYPE=vlan");
  write("sys/class/net/vlan9/lower_eth7/mtu", "1500");
  Finding found = below();
  EXPECT_EQ(found.subject, "encryption below rxe0");
  EXPECT_TRUE(says(found, "inline AES-XTS: absent")) << found.found;
  EXPECT_TRUE(says(found, "eth7: IPsec packet offload cannot be told, ")) << found.found;
  EXPECT_TRUE(found.found.ends_with("MACsec interface macsec0 (settings cannot be told)")) << found.found;
  EXPECT_TRUE(found.mend.starts_with("the kernel sends this device's packets")) << found.mend;
  std::filesystem::create_directories(root / "sys/class/infiniband/rxe0/device");
  std::filesystem::create_symlink("../drivers/mlx5_core", root / "sys/class/infiniband/rxe0/device/driver");
  found = below();
  EXPECT_TRUE(found.found.starts_with("inline AES-XTS: cannot be told")) << found.found;
  EXPECT_TRUE(found.mend.starts_with("the device sends its packets itself")) << found.mend;
}

TEST_F(DoctorOfEncryption, AsksAnMlx5DeviceForItsEngine) {
  roots.mlx5 = MLX5_DOUBLE;  // its devices: "xts", "without"
  for (const auto& [device, said] : std::map<std::string, std::string>{
           {"xts", "present (for blocks of disks: it notices no change, and nothing here uses it); "},
           {"without", "absent; "}}) {
    std::filesystem::remove_all(root / "sys/class/infiniband");
    std::filesystem::create_directories(root / "sys/class/infiniband" / device / "device");
    std::filesystem::create_symlink("../drivers/mlx5_core", root / "sys/class/infiniband" / device / "device/driver");
    EXPECT_TRUE(below().found.starts_with("inline AES-XTS: " + said)) << below().found;
  }
}

TEST_F(DoctorOfEncryption, ADeviceMayStandOnAMacsecInterface) {
  write(port + "gid_attrs/ndevs/0", "macsec0");
  write("sys/class/net/macsec0/uevent", "DEVTYPE=macsec");
  EXPECT_TRUE(below().found.ends_with("MACsec interface itself (settings cannot be told)")) << below().found;
}

TEST_F(DoctorOfEncryption, LooksAtWhatAVlanSendsThrough) {
  const std::string net = "sys/class/net/";
  write(port + "gid_attrs/ndevs/0", "m100");
  write(port + "gid_attrs/ndevs/1", "eth7");
  write(net + "m100/uevent", "DEVTYPE=vlan");
  write(net + "m100/lower_macsec0/mtu", "1468");
  write(net + "macsec0/uevent", "DEVTYPE=macsec");
  write(net + "macsec0/lower_eth7/mtu", "1500");
  Finding found = below();
  EXPECT_TRUE(says(found, "MACsec interface absent here, it sends through macsec0; ")) << found.found;
  EXPECT_TRUE(says(found, "itself (settings cannot be told), it sends through eth7")) << found.found;
  EXPECT_TRUE(says(found, "MACsec interface macsec0 (settings cannot be told)")) << "eth7: " << found.found;
  EXPECT_TRUE(says(found, "; macsec0: IPsec packet offload ")) << found.found;
  write(net + "eth7/lower_m100/mtu", "1500");  // a circle, which no kernel has
  found = below();
  EXPECT_TRUE(says(found, ", it sends through m100")) << found.found;
  EXPECT_EQ(found.found.find("; macsec0: "), found.found.rfind("; macsec0: ")) << "each once: " << found.found;
}

TEST_F(DoctorOfEncryption, SaysWhereAnInterfaceSendsThroughWhatIsNotNamed) {
  write(port + "gid_attrs/ndevs/0", "lo");  // its features are the kernel's
  write("sys/class/net/lo/ifindex", "1");
  write("sys/class/net/lo/iflink", "1");
  EXPECT_TRUE(below().found.ends_with("MACsec interface absent")) << below().found;
  write("sys/class/net/lo/iflink", "7");
  EXPECT_TRUE(says(below(), "lo: IPsec packet offload absent here, ")) << below().found;
  EXPECT_TRUE(says(below(), "MACsec offload absent here, ")) << below().found;
  EXPECT_TRUE(below().found.ends_with(
      "MACsec interface absent here, it sends through another device, which the kernel does not name here"));
}

TEST_F(DoctorOfEncryption, DoesNotTakeTheMacForThePhy) {
  write(port + "gid_attrs/ndevs/0", "lo");
  write("sys/class/net/lo/ifindex", "1");
  EXPECT_TRUE(says(below(), "MACsec offload absent, ")) << below().found;
  write("sys/class/net/lo/phydev/phy_id", "0x1");
  EXPECT_TRUE(says(below(), "MACsec offload absent from the MAC, of the PHY cannot be told, ")) << below().found;
}

TEST(DoctorOfIpsec, TellsPathsThatAreInDoubtFromOthers) {
  EXPECT_EQ(describe(EncryptedPaths{}), "none");
  EXPECT_EQ(describe(EncryptedPaths{.all = {"a to b"}, .in_doubt = {}}), "a to b");
  EXPECT_EQ(describe(EncryptedPaths{.all = {}, .in_doubt = {"a to b", "c to d"}}), "cannot be told of a to b, c to d");
  EXPECT_EQ(describe(EncryptedPaths{.all = {"a to b"}, .in_doubt = {"c to d"}}), "a to b (cannot be told of c to d)");
  EXPECT_EQ(describe(EncryptedPaths{.all = std::vector<std::string>(10, "p"), .in_doubt = {}}),
            "p, p, p, p, p, p, p, p and 2 more");
}

TEST_F(DoctorOfEncryption, ClaimsNothingOfWhatItDoesNotSee) {
  write(port + "gid_attrs/ndevs/0", "lo");
  Finding found = below();
  EXPECT_TRUE(says(found, "lo: IPsec packet offload ")) << found.found;
  EXPECT_TRUE(found.found.ends_with("MACsec interface cannot be told")) << "no class/net: " << found.found;
  write("proc/sys/net/core/somaxconn", "4096");
  EXPECT_TRUE(says(below(), "this process's own network namespace")) << "another one's eth0 may be meant";
  write("proc/sys/net/core/netdev_max_backlog", "1000");
  EXPECT_FALSE(says(below(), "this process's own network namespace"));
}

TEST_F(DoctorOfEncryption, SaysSoWhereADeviceHasNoNetworkDevice) {
  write(port + "link_layer", "Ethernet");
  EXPECT_TRUE(says(below(), "IPsec and MACsec: cannot be told")) << below().found;
  write(port + "link_layer", "InfiniBand");
  EXPECT_TRUE(says(below(), "IPsec and MACsec: absent from InfiniBand")) << below().found;
  EXPECT_TRUE(below().mend.starts_with("nothing below Verbena")) << below().mend;
}

TEST_F(DoctorOfEncryption, TellsAnInstructionThatIsMissing) {
  EXPECT_EQ(judge_processor("AES-NI, VAES (OpenSSL 3.5.1)", "").found, "AES-NI, VAES (OpenSSL 3.5.1)");
  EXPECT_EQ(judge_processor("ARMv8 AES (OpenSSL 3.0.19)", "").found, "ARMv8 AES (OpenSSL 3.0.19)");
  EXPECT_EQ(judge_processor("AES-NI (OpenSSL 3.0.19)", "").found, "AES-NI (OpenSSL 3.0.19); VAES with AVX-512 absent");
  EXPECT_EQ(judge_processor("AES-NI (OpenSSL 3.0.19)", "OpenSSL 3.0.19").found,
            "AES-NI (OpenSSL 3.0.19); VAES present, and OpenSSL 3.0.19 does not use it for AES-GCM (3.1 and later do)");
  EXPECT_EQ(judge_processor("AES-NI, VAES (ipsec-mb 1.3.0)", "OpenSSL 3.0.19").found,
            "AES-NI, VAES (ipsec-mb 1.3.0); TLS by OpenSSL 3.0.19 does not use VAES for AES-GCM (3.1 and later do)");
  EXPECT_EQ(judge_processor("AES-NI (OpenSSL 3.0.19)", "").health, Health::ok);
  EXPECT_EQ(judge_processor("", "").health, Health::warn);
}

TEST(DoctorOfSealing, SaysWhichCipherIsUsedAndWhy) {
  EXPECT_EQ(judge_ciphers("AES-NI, VAES", AeadKind::aes_256_gcm, true).found,
            "aes-256-gcm is used, by AES-NI, VAES; chacha20-poly1305 for clients without AES instructions");
  EXPECT_EQ(judge_ciphers("AES-NI", AeadKind::aes_256_gcm, false).found,
            "aes-256-gcm is used, by AES-NI; chacha20-poly1305 is forbidden by this machine's OpenSSL");
  EXPECT_EQ(
      judge_ciphers("", AeadKind::chacha20_poly1305, true).found,
      "chacha20-poly1305 is used: the processor has no AES instructions; aes-256-gcm for clients that have nothing "
      "else");
}

TEST(DoctorOfSealing, NamesEachWayThatLeavesTheHostInTheClear) {
  Config config;
  Config::Rdma& rdma = config.rdma;
  Findings findings = check_sealing(config);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_TRUE(findings[0].found.starts_with("preferred: ")) << findings[0].found;
  EXPECT_EQ(
      findings[1].found,
      "RDMA tokens that are not sealed (rdma.token_provider); RDMA of native clients that do not ask for encryption");
  EXPECT_EQ(findings[1].health, Health::ok);
  EXPECT_EQ(findings[1].mend, "for networks that are not trusted: rdma.encryption: required");

  rdma.tcp_encryption = false;
  findings = check_sealing(config);
  EXPECT_EQ(findings[1].health, Health::warn) << "encryption is wished for, and turned off";
  EXPECT_TRUE(findings[1].found.ends_with("; the native door's tcp (rdma.tcp_encryption)")) << findings[1].found;
  EXPECT_TRUE(findings[1].mend.ends_with(", and rdma.tcp_encryption: on")) << findings[1].mend;

  rdma.encryption = RdmaEncryption::off;
  rdma.token_provider = {"none"};
  rdma.provider = {"verbs", "local"};
  findings = check_sealing(config);
  EXPECT_TRUE(findings[0].found.starts_with("off: ")) << findings[0].found;
  EXPECT_EQ(findings[1].found, "RDMA of native clients");
  EXPECT_EQ(findings[1].health, Health::ok);

  rdma = {};
  rdma.encryption = RdmaEncryption::required;
  findings = check_sealing(config);
  EXPECT_TRUE(findings[0].found.starts_with("required: ")) << findings[0].found;
  EXPECT_EQ(findings[1].found, "none leaves the host by RDMA or the native door");
  EXPECT_TRUE(findings[1].mend.empty());

  rdma.enabled = false;
  EXPECT_TRUE(check_sealing(config).empty());
}

TEST(DoctorOfSealing, TellsTheRuleOfEachNetwork) {
  Config config;
  config.rdma.encryption = RdmaEncryption::off;
  config.listeners.emplace_back().networks = {"10.3.0.0/16"};
  EXPECT_EQ(check_sealing(config).size(), 2u) << "its clients are treated as everyone";
  EXPECT_EQ(check_sealing(config)[0].found, "off: RDMA is never encrypted");

  config.listeners.emplace_back().networks = {"10.1.0.0/16", "fd00::/8"};
  config.listeners.back().encryption = RdmaEncryption::required;
  Findings findings = check_sealing(config);
  ASSERT_EQ(findings.size(), 4u);
  EXPECT_EQ(findings[0].found, "off: RDMA is never encrypted (where no entry of listeners says otherwise)");
  EXPECT_EQ(findings[1].found,
            "RDMA tokens that are not sealed (rdma.token_provider); RDMA of native clients (where no entry of "
            "listeners says otherwise)");
  EXPECT_EQ(findings[2].subject, "listeners[1].encryption");
  EXPECT_TRUE(
      findings[2].found.starts_with("for 10.1.0.0/16, fd00::/8: required: RDMA of the native door is encrypted"))
      << findings[2].found;
  EXPECT_EQ(findings[3].subject, "payload in the clear for 10.1.0.0/16, fd00::/8");
  EXPECT_EQ(findings[3].found, "none leaves the host by RDMA or the native door");

  // The storage network is plain, and everything else encrypted.
  config.rdma.encryption = RdmaEncryption::required;
  config.listeners.assign(1, {});
  config.listeners[0].networks.assign(20, "10.1.0.0/16");
  config.listeners[0].encryption = RdmaEncryption::off;
  findings = check_sealing(config);
  ASSERT_EQ(findings.size(), 4u);
  EXPECT_TRUE(findings[1].found.starts_with("none leaves the host")) << findings[1].found;
  EXPECT_TRUE(findings[2].found.ends_with(" and 12 more: off: RDMA is never encrypted")) << findings[2].found;
  EXPECT_EQ(findings[3].found, "RDMA tokens that are not sealed (rdma.token_provider); RDMA of native clients");
  EXPECT_EQ(findings[3].mend, "for networks that are not trusted: listeners[0].encryption: required");
}

// A machine's PCI bus with a GPU behind a bridge, whose configuration space has one extended capability: ACS.
class DoctorOfGpus : public Doctor {
 protected:
  static constexpr const char* bridge = "sys/devices/pci0000:60/0000:60:01.0/";
  void SetUp() override {
    Doctor::SetUp();
    roots.dev = root / "dev";
    const std::filesystem::path gpu = std::filesystem::path(bridge) / "0000:61:00.0";
    write(gpu / "vendor", "0x10de");
    write(gpu / "class", "0x030200");
    write(gpu / "numa_node", "1");
    write("sys/bus/pci/devices/0000:00:00.0/vendor", "0x8086");
    std::filesystem::create_symlink(root / gpu, root / "sys/bus/pci/devices/0000:61:00.0");
    write("dev/nvidiactl", "");
    write("dev/nvidia0", "");
  }
  void write_bridge(unsigned control, unsigned next = 0, size_t size = 4096) {
    std::string bytes(size, '\0');
    const unsigned head = 0x0d | 1u << 16 | next << 20;
    for (size_t i = 0; i < 4 && size > 0x110; ++i) bytes[0x100 + i] = static_cast<char>(head >> (8 * i));
    if (size > 0x110) bytes[0x106] = static_cast<char>(control);
    std::ofstream(root / bridge / "config", std::ios::binary) << bytes;
  }
  Finding of(const std::string& subject) {
    for (Finding& one : check_gpu_bus(roots)) {
      if (one.subject == subject) return one;
    }
    return {};
  }
};

TEST_F(DoctorOfGpus, AMachineWithoutOneHasNoFindings) {
  std::filesystem::remove_all(root / "sys/bus/pci/devices/0000:61:00.0");
  EXPECT_TRUE(check_gpu_bus(roots).empty());
}

TEST_F(DoctorOfGpus, TellsWhatRedirectsPeersAndWhatTranslates) {
  write_bridge(0x1d);
  write(std::filesystem::path(bridge) / "0000:61:00.0/iommu_group/type", "DMA-FQ");
  const Finding found = of("gpu at 0000:61:00.0");
  EXPECT_EQ(found.found, "NUMA node 1, IOMMU DMA-FQ, ACS of the bridges above it redirects at 0000:60:01.0");
  EXPECT_NE(found.mend.find("pci=disable_acs_redir=0000:60:01.0"), std::string::npos) << found.mend;
  EXPECT_NE(found.mend.find("iommu=pt"), std::string::npos) << found.mend;
  write_bridge(0x11);  // source validation and upstream forwarding alone
  EXPECT_TRUE(of("gpu at 0000:61:00.0").found.ends_with("does not redirect"));
  write(std::filesystem::path(bridge) / "0000:61:00.0/iommu_group/type", "identity");
  EXPECT_EQ(of("gpu at 0000:61:00.0").mend, "");
}

TEST_F(DoctorOfGpus, DoesNotGuessWhatItMayNotRead) {
  EXPECT_TRUE(of("gpu at 0000:61:00.0").found.ends_with("cannot be told (only root may read it)"));
  write_bridge(0x1d, 0, 64);
  EXPECT_TRUE(of("gpu at 0000:61:00.0").found.ends_with("cannot be told (only root may read it)"));
  std::string circle(4096, '\0');  // a capability of another kind that names itself as the next
  circle.replace(0x100, 4, std::string("\x01\x00\x01\x10", 4));
  std::ofstream(root / bridge / "config", std::ios::binary) << circle;
  EXPECT_TRUE(of("gpu at 0000:61:00.0").found.ends_with("does not redirect"));
}

TEST_F(DoctorOfGpus, NamesDeviceFilesThatCannotBeOpened) {
  for (const Finding& one : check_gpu_bus(roots)) EXPECT_EQ(one.health, Health::ok) << one.subject;
  std::filesystem::remove(root / "dev/nvidiactl");
  std::filesystem::remove(root / "dev/nvidia0");
  std::filesystem::create_symlink("nvidia0", root / "dev/nvidia0");  // cannot be opened, also by root
  EXPECT_EQ(of("gpu device file " + (root / "dev/nvidiactl").string()).health, Health::warn);
  const Finding found = of("gpu device file " + (root / "dev/nvidia0").string());
  EXPECT_EQ(found.health, Health::warn);
  EXPECT_EQ(found.found, std::strerror(ELOOP));
  EXPECT_NE(found.mend.find("--gpus all"), std::string::npos) << found.mend;
}

TEST_F(DoctorOfGpus, TellsOfInstancesAndOfTheModuleForPeers) {
  write("proc/driver/nvidia/capabilities/gpu0/mig/gi1/access", "");
  write("proc/driver/nvidia/capabilities/gpu0/mig/gi2/access", "");
  write("proc/driver/nvidia/capabilities/gpu1/mig/access", "");
  EXPECT_EQ(of("gpu0 in MIG").found, "2 instances");
  EXPECT_EQ(of("gpu1 in MIG").found, "");
  EXPECT_EQ(of("gpu peer memory").found, "nvidia_peermem is not loaded");
  write("sys/module/nvidia_peermem/refcnt", "0");
  EXPECT_EQ(of("gpu peer memory").found, "nvidia_peermem is loaded");
}

TEST_F(DoctorOfGpus, TellsOfAmdsWhereProgramsMayUseThem) {
  write(std::filesystem::path(bridge) / "0000:61:00.0/vendor", "0x1002");
  EXPECT_TRUE(check_gpu_bus(roots).empty());  // a display
  write("dev/kfd", "");
  write("dev/dri/renderD128", "");
  write("dev/dri/card0", "");
  for (const char* kind : {"0x030000", "0x120000"}) {  // a display controller, a processing accelerator
    write(std::filesystem::path(bridge) / "0000:61:00.0/class", kind);
    const Findings found = check_gpu_bus(roots);
    ASSERT_EQ(found.size(), 1u) << kind;
    EXPECT_EQ(found[0].subject, "gpu at 0000:61:00.0");
  }
  std::filesystem::remove(root / "dev/dri/renderD128");
  std::filesystem::create_symlink("renderD128", root / "dev/dri/renderD128");
  const Finding closed = of("gpu device file " + (root / "dev/dri/renderD128").string());
  EXPECT_EQ(closed.health, Health::warn);
  EXPECT_NE(closed.mend.find("--device /dev/kfd"), std::string::npos) << closed.mend;
  EXPECT_EQ(of("gpu peer memory").found, "");
}

// A library of ROCm on a machine with NVIDIA's GPUs alone made the doctor warn of a GPU that cannot be used.
TEST_F(DoctorOfGpus, ADriverThatDoesNotStartIsAWarningWhereAGpuOfItsMakerIs) {
  using memory::cuda::Drivers;
  using memory::cuda::Fault;
  using memory::cuda::Platform;
  const std::vector<GpuOnBus> gpus = gpus_on_bus(roots), none;
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0].platform, Platform::cuda);
  Drivers known;
  known.faults = {{.kind = Fault::Kind::absent, .text = "hipInit: hipErrorNoDevice", .platform = Platform::rocm}};
  Findings found = driver_faults(known, gpus);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].health, Health::ok);
  EXPECT_EQ(found[0].mend, "");
  known.faults[0].kind = Fault::Kind::failed;
  EXPECT_EQ(driver_faults(known, gpus)[0].health, Health::warn);

  known.faults = {{.kind = Fault::Kind::absent, .text = "no nv", .no_library = true, .platform = Platform::cuda},
                  {.kind = Fault::Kind::absent, .text = "no amd", .no_library = true, .platform = Platform::rocm}};
  found = driver_faults(known, gpus);
  ASSERT_EQ(found.size(), 1u) << "of AMD's there is none, and nothing to say";
  EXPECT_EQ(found[0].found, "no nv");
  EXPECT_EQ(found[0].health, Health::warn);
  EXPECT_NE(found[0].mend, "");
  found = driver_faults(known, none);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].found, "no nv; no amd");
  EXPECT_EQ(found[0].health, Health::ok);
}

TEST_F(DoctorOfGpus, TellsTheWayOfEachProviderOnce) {
  const auto provider = [](const char* name, bool usable) {
    fabric::ofi::ProviderInfo info;
    info.provider = name;
    info.domain = "rdma7";
    info.usable = usable;
    return info;
  };
  std::vector<fabric::ofi::ProviderInfo> providers{provider("tcp", true), provider("verbs;ofi_rxm", true),
                                                   provider("verbs;ofi_rxm", true), provider("psm3", false)};
  Findings ways = gpu_ways(providers, {.dma_buf = true});
  ASSERT_EQ(ways.size(), 4u);
  EXPECT_TRUE(ways[0].found.starts_with("direct with a server that has gpudirect.enabled"));
  EXPECT_EQ(ways[1].subject, "gpu memory by tcp");
  EXPECT_NE(ways[1].mend.find("no device"), std::string::npos) << ways[1].mend;
  EXPECT_EQ(ways[2].subject, "gpu memory by verbs;ofi_rxm");
  EXPECT_TRUE(ways[2].found.starts_with("staged")) << ways[2].found;
  EXPECT_NE(ways[2].mend.find("registers no memory of GPUs for rdma7 (FI_HMEM)"), std::string::npos) << ways[2].mend;
  EXPECT_EQ(ways[3].subject, "gpu memory by http");

  providers[1].device_memory = true;
  ways = gpu_ways(providers, {});
  EXPECT_TRUE(ways[2].found.starts_with("staged")) << ways[2].found;
  EXPECT_NE(ways[2].mend.find("exports no dma-buf"), std::string::npos) << ways[2].mend;
  ways = gpu_ways(providers, {.dma_buf = true, .peer_module = true});
  EXPECT_TRUE(ways[2].found.starts_with("peer, unless sealed: rdma7 reaches the memory itself (dma-buf)"));
  std::swap(providers[1], providers[2]);
  providers[2].domain = "mlx5_0";
  ways = gpu_ways(providers, {.dma_buf = true});
  ASSERT_EQ(ways.size(), 4u);
  EXPECT_TRUE(ways[2].found.starts_with("peer, unless sealed: mlx5_0 reaches")) << "the one of both that can";
  ways = gpu_ways(providers, {.peer_module = true});
  EXPECT_NE(ways[2].found.find("(nvidia_peermem)"), std::string::npos) << ways[2].found;

  EXPECT_NE(ways[0].mend.find("by descriptors not"), std::string::npos) << ways[0].mend;
  ways = gpu_ways(providers, {.descriptors = true});
  EXPECT_TRUE(ways[0].mend.ends_with("cudaMalloc, or by descriptors")) << ways[0].mend;

  constexpr auto amd = memory::cuda::Platform::rocm;
  ways = gpu_ways(providers, {.descriptors = true, .platform = amd});
  EXPECT_TRUE(ways[0].found.starts_with("direct with a server that has gpudirect.enabled, else")) << ways[0].found;
  ways = gpu_ways(providers, {.platform = amd});
  EXPECT_TRUE(ways[0].found.starts_with("direct with a server that has gpudirect.enabled and gpudirect.rocm_handles"))
      << ways[0].found;
  EXPECT_TRUE(ways[0].mend.starts_with("not direct without gpudirect.rocm_handles: the driver gives no descriptors"))
      << ways[0].mend;
  ways = gpu_ways(providers, {.platform = amd});
  EXPECT_NE(ways[2].mend.find("the peer memory of amdkfd is not there"), std::string::npos) << ways[2].mend;
  ways = gpu_ways(providers, {.dma_buf = true, .unsure = true, .platform = amd});
  EXPECT_TRUE(ways[2].found.starts_with("staged")) << ways[2].found;
  EXPECT_NE(ways[2].mend.find("hipDeviceFlushGPUDirectRDMAWrites"), std::string::npos) << ways[2].mend;
  ways = gpu_ways(providers, {.dma_buf = true, .platform = amd});
  EXPECT_TRUE(ways[2].found.starts_with("peer, unless sealed: mlx5_0 reaches the memory itself (dma-buf)"));
}

TEST_F(Doctor, ShowsTheGidTableAndASmallMtu) {
  const std::string port = "sys/class/infiniband/rxe0/ports/1/";
  write(port + "state", "4: ACTIVE");
  write(port + "link_layer", "Ethernet");
  write(port + "gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001");
  write(port + "gid_attrs/ndevs/1", "eth7");
  write("sys/class/net/eth7/mtu", "1500");
  const Finding small = check_devices(roots)[0];
  EXPECT_NE(small.found.find("[1] 0000:0000:0000:0000:0000:ffff:0a00:0001"), std::string::npos) << small.found;
  EXPECT_NE(small.found.find("eth7 has MTU 1500"), std::string::npos) << small.found;
  EXPECT_NE(small.mend.find("ip link set dev eth7 mtu 4200"), std::string::npos);
  EXPECT_EQ(small.command, "ip link set dev eth7 mtu 4200");
  write("sys/class/net/eth7/mtu", "9000");
  EXPECT_TRUE(check_devices(roots)[0].mend.empty());
}

TEST_F(Doctor, WarnsOfExt4ThatLosesWhatWasSynced) {
  const auto disk = [&](unsigned features, unsigned magic = 0xEF53) {
    std::string bytes(4096, '\0');
    const auto put = [&](size_t at, unsigned value) {
      bytes[1024 + at] = static_cast<char>(value & 0xff);
      bytes[1024 + at + 1] = static_cast<char>(value >> 8);
    };
    put(0x38, magic);
    put(0x5C, features);
    write("dev/sdx1", bytes);
    return judge_ext4(root / "dev/sdx1");
  };
  EXPECT_EQ(disk(0x23C).health, Health::ok);
  EXPECT_NE(disk(0x23C).found.find("without fast_commit"), std::string::npos);
  EXPECT_EQ(disk(0x63C).health, Health::warn);
  EXPECT_NE(disk(0x63C).mend.find("tune2fs -O ^fast_commit"), std::string::npos);
  for (const Finding& finding : {disk(0x63C, 0x1234), judge_ext4(root / "dev/none")}) {
    EXPECT_EQ(finding.health, Health::ok);
    EXPECT_NE(finding.found.find("cannot be told"), std::string::npos) << finding.found;
  }
}

TEST_F(Doctor, LooksAtTheFileSystemOfExt4Only) {
  roots.dev = root / "dev";  // without devices
  for (const Finding& finding : check_file_system(roots, root)) EXPECT_EQ(finding.health, Health::ok);
  EXPECT_TRUE(check_file_system(roots, "/proc").empty());
  EXPECT_TRUE(check_file_system(roots, root / "none").empty());
}

TEST_F(Doctor, NamesPersistentMemoryAndWhyAFolderIsNone) {
  roots.dev = root / "dev";
  EXPECT_TRUE(check_pmem_devices(roots).empty());
  write("sys/block/sda/size", "1000");
  write("sys/block/pmem0/size", "2097152");
  write("sys/block/pmem0/queue/dax", "1");
  write("sys/block/pmem1/size", "2097152");
  write("sys/block/pmem1/queue/dax", "0");
  const auto devices = check_pmem_devices(roots);
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].found, "1 GiB, DAX, the platform does not say what it keeps when the power fails");
  EXPECT_TRUE(devices[0].mend.empty());
  EXPECT_NE(devices[1].mend.find("fsdax"), std::string::npos);
  // As in sysfs: the block device's `device` is a namespace in a region.
  write("sys/devices/region0/persistence_domain", "memory_controller");
  std::filesystem::create_directories(root / "sys/devices/region0/namespace0.0");
  std::filesystem::create_directory_symlink(root / "sys/devices/region0/namespace0.0", root / "sys/block/pmem0/device");
  write("sys/block/pmem0/badblocks", "8 1\n4096 3");
  const Finding bad = check_pmem_devices(roots)[0];
  EXPECT_EQ(bad.health, Health::warn);
  EXPECT_EQ(bad.found, "1 GiB, DAX, what was written back is kept, 2 KiB in bad blocks");
  write("dev/dax0.0", "");
  write("sys/bus/dax/devices/dax0.0/size", "2147483648");
  write("dev/dax1.0", "");
  write("sys/devices/region0/devtype", "nd_pmem");
  write("sys/devices/region0/badblocks", "4096 3");
  write("sys/devices/region0/dax1.1/dax1.0/size", "1073741824");
  std::filesystem::create_directory_symlink(root / "sys/devices/region0/dax1.1/dax1.0",
                                            root / "sys/bus/dax/devices/dax1.0");
  const auto all = check_pmem_devices(roots);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(
      all[2].found,
      "2 GiB, which data.pmem does not take: the kernel does not know it as persistent memory, so it forgets when "
      "the power fails");
  EXPECT_EQ(all[2].subject, "device-dax node dax0.0");
  EXPECT_EQ(all[3].found, "1 GiB, persistent: what was written back is kept, 1.5 KiB in bad blocks");
  EXPECT_EQ(all[3].health, Health::warn);
  const Finding none = check_pmem("/proc");
  EXPECT_EQ(none.health, Health::fail);
  EXPECT_NE(none.found.find("/proc"), std::string::npos) << none.found;
}

TEST_F(Doctor, SaysWhetherPacketsAreFiltered) {
  EXPECT_TRUE(check_firewall(roots)[0].mend.empty());
  write("sys/module/nf_tables/refcnt", "0");
  EXPECT_TRUE(check_firewall(roots)[0].mend.empty());
  write("sys/module/nf_tables/refcnt", "12");
  EXPECT_NE(check_firewall(roots)[0].mend.find("4791"), std::string::npos);
}

TEST_F(Doctor, APortThatIsDownOrHasNoAddressIsAWarning) {
  const std::string port = "sys/class/infiniband/mlx5_0/ports/1/";
  write(port + "state", "1: DOWN");
  write(port + "link_layer", "InfiniBand");
  EXPECT_EQ(check_devices(roots)[0].health, Health::warn);
  write(port + "state", "4: ACTIVE");
  write(port + "link_layer", "Ethernet");
  write(port + "gids/0", "fe80:0000:0000:0000:5054:00ff:fe12:3456");
  const Findings findings = check_devices(roots);
  EXPECT_EQ(findings[0].health, Health::warn);
  EXPECT_NE(findings[0].mend.find("ip addr add"), std::string::npos);
}

TEST_F(Doctor, NoProviderAtAllFails) {
  const Findings findings = check_providers({});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].health, Health::fail);
}

TEST_F(Doctor, TellsOfEachDeviceWhetherItHasDynamicallyConnectedQueuePairs) {
  using rdma::dc::Support;
  const Findings findings = judge_dc(
      {{"mlx5_0", Support::present}, {"rxe0", Support::absent}, {"mlx5_1", Support::unknown, EACCES}, {"mlx5_2"}});
  ASSERT_EQ(findings.size(), 4u);
  EXPECT_EQ(findings[0].subject, "DC of mlx5_0");
  const char* const words[] = {"pairs: present", "pairs: absent", "pairs: cannot be told: ", "without libmlx5"};
  for (size_t i = 0; i < 4; ++i) EXPECT_NE(findings[i].found.find(words[i]), std::string::npos) << findings[i].found;
}

TEST_F(Doctor, ReadsMemoryFromProc) {
  write("proc/meminfo", "MemAvailable:    100000 kB\nHugePages_Total:     512\nHugePages_Free:      500");
  const Findings findings = check_memory(roots);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].found, "500 of 512 free (2 MiB each)");
  EXPECT_TRUE(findings[0].mend.empty());
  EXPECT_EQ(findings[1].health, Health::warn) << "100 MB are too little for the arena";
}

TEST_F(Doctor, OfARunningServerItSaysWhatItsArenaLacks) {
  write("proc/meminfo", "MemAvailable:  10000000 kB\nHugePages_Total:      64\nHugePages_Free:       64");
  const Findings lacking = check_memory(roots, {.bytes = GiB, .running = true});
  EXPECT_NE(lacking[0].mend.find("vm.nr_hugepages=544"), std::string::npos) << lacking[0].mend;
  EXPECT_NE(lacking[0].mend.find("next start"), std::string::npos);
  EXPECT_TRUE(check_memory(roots, {.bytes = GiB, .running = true, .huge_pages = true})[0].mend.empty());
}

TEST_F(Doctor, KnowsSettingsOfTheKernelThatHoldClientsUp) {
  write("proc/sys/net/core/somaxconn", "128");
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave");
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "acpi-cpufreq");
  Findings findings = check_kernel(roots);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_NE(findings[0].mend.find("sysctl -w net.core.somaxconn=4096"), std::string::npos);
  EXPECT_EQ(findings[0].command, "sysctl -w net.core.somaxconn=4096");
  EXPECT_EQ(findings[1].health, Health::warn);
  write("proc/sys/net/core/somaxconn", "4096");
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate");
  for (const Finding& finding : check_kernel(roots)) EXPECT_EQ(finding.health, Health::ok) << finding.subject;
}

TEST_F(Doctor, SaysWhoKeepsTheClock) {
  EXPECT_NE(check_clock(roots)[0].mend.find("timedatectl"), std::string::npos);
  write("run/chrony/chronyd.pid", "7");
  EXPECT_EQ(check_clock(roots)[0].found, "kept by chronyd");
}

TEST_F(Doctor, ADiskThatIsNotThereFailsAndOneThatIsTellsItsRoom) {
  EXPECT_EQ(check_disk("disk of the data", root / "none").health, Health::fail);
  EXPECT_NE(check_disk("disk of the data", root).found.find("free of"), std::string::npos);
}

TEST_F(Doctor, ADiskIsJudgedByItsShareItsBytesAndItsInodes) {
  const auto judged = [](const DiskRoom& room) { return judge_disk("disk", "/data", room).health; };
  EXPECT_EQ(judged({.bytes = 100 * GiB, .free_bytes = 10 * GiB}), Health::ok);
  EXPECT_EQ(judged({.bytes = 100 * GiB, .free_bytes = 10 * GiB - 1}), Health::warn);
  EXPECT_EQ(judged({.bytes = 10'000 * GiB, .free_bytes = 100 * GiB}), Health::ok);
  EXPECT_EQ(judged({.bytes = 10'000 * GiB, .free_bytes = 100 * GiB - 1}), Health::warn);
  EXPECT_EQ(judged({.bytes = 1000 * GiB, .free_bytes = 5 * GiB}), Health::warn);
  EXPECT_EQ(judged({.bytes = 1000 * GiB, .free_bytes = 5 * GiB - 1}), Health::fail);
  EXPECT_EQ(judged({.bytes = 20 * GiB, .free_bytes = GiB}), Health::warn) << "a twentieth of a small one";
  EXPECT_EQ(judged({.bytes = 0, .free_bytes = 0}), Health::fail);
  const DiskRoom room{.bytes = GiB, .free_bytes = GiB, .inodes = 1000};
  EXPECT_EQ(judged({room.bytes, room.free_bytes, room.inodes, 21}), Health::ok);
  EXPECT_EQ(judged({room.bytes, room.free_bytes, room.inodes, 20}), Health::warn);
  EXPECT_EQ(judged({room.bytes, room.free_bytes, 0, 0}), Health::ok) << "a file system that counts none";
  EXPECT_EQ(judge_disk("disk", "/it's here", {room.bytes, room.free_bytes, room.inodes, 0}).command,
            "du --inodes -x '/it'\\''s here'");
}

TEST_F(Doctor, LibfabricIsNotAskedWhereRdmaIsOff) {
  const Findings findings = examine_machine(roots, {}, /*fabrics=*/false);
  size_t fabrics = 0;
  for (const Finding& finding : findings) {
    EXPECT_FALSE(finding.subject.starts_with("provider")) << finding.subject;
    fabrics += finding.subject == "fabric" && finding.found.find("rdma.enabled") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(fabrics, 1u);
}

TEST_F(Doctor, CountsOpenFiles) {
  write("proc/self/fd/0", "");
  write("proc/self/fd/1", "");
  EXPECT_TRUE(check_open_files(roots)[0].found.starts_with("2 of ")) << check_open_files(roots)[0].found;
}

}  // namespace
}  // namespace verbena::admin
