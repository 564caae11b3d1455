# External dependencies and where they are found. ARCHITECTURE.md gives the reason for each.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(OpenSSL 3 REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(RocksDB REQUIRED)
find_package(pugixml REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(prometheus-cpp REQUIRED COMPONENTS core)
find_path(XXHASH_INCLUDE xxhash.h REQUIRED)  # headers only, in the compiler's default path
find_package(GTest REQUIRED)
find_package(rapidcheck QUIET)
pkg_check_modules(IBVERBS REQUIRED IMPORTED_TARGET libibverbs)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(HIREDIS REQUIRED hiredis)
pkg_check_modules(MOSQUITTO REQUIRED libmosquitto)
pkg_check_modules(RABBITMQ REQUIRED librabbitmq)
pkg_check_modules(RDKAFKA REQUIRED rdkafka)
pkg_check_modules(URING REQUIRED IMPORTED_TARGET liburing)

# Without the include flags of their .pc files: they do not match the precompiled headers.
add_library(verbena_hiredis INTERFACE)
target_link_libraries(verbena_hiredis INTERFACE ${HIREDIS_LINK_LIBRARIES})
add_library(verbena_brokers INTERFACE)
target_link_libraries(verbena_brokers INTERFACE ${MOSQUITTO_LINK_LIBRARIES} ${RABBITMQ_LINK_LIBRARIES} ${RDKAFKA_LINK_LIBRARIES})
add_library(verbena_rdkafka INTERFACE)
target_link_libraries(verbena_rdkafka INTERFACE ${RDKAFKA_LINK_LIBRARIES})

# OpenLDAP's library is loaded only if a directory is configured: the build needs its headers and its name.
pkg_check_modules(LDAP REQUIRED ldap)
list(GET LDAP_LINK_LIBRARIES 0 VERBENA_LDAP_LIBRARY)
execute_process(COMMAND ${CMAKE_READELF} -d ${VERBENA_LDAP_LIBRARY} OUTPUT_VARIABLE VERBENA_LDAP_DYNAMIC COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "soname: \\[([^]]+)\\]" VERBENA_LDAP_SONAME "${VERBENA_LDAP_DYNAMIC}")
if(NOT CMAKE_MATCH_1)
  message(FATAL_ERROR "${VERBENA_LDAP_LIBRARY} has no SONAME")
endif()
# In a header, not a flag: flags of one room would not match the precompiled headers of all.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/ldap_soname.h CONTENT "#define VERBENA_LDAP_SONAME \"${CMAKE_MATCH_1}\"\n")
add_library(verbena_ldap INTERFACE)
target_include_directories(verbena_ldap SYSTEM INTERFACE ${LDAP_INCLUDE_DIRS} ${CMAKE_BINARY_DIR}/generated)
target_link_libraries(verbena_ldap INTERFACE ${CMAKE_DL_LIBS})

# AES-256-GCM by VAES and AVX-512, of ipsec-mb, where OpenSSL has no such loop: before 3.1 (src/base/aead_vaes.cc). Of its
# static library: three objects of it are linked, and no package is needed at run time. The functions are not those of
# its header, so what links is what counts.
set(VERBENA_IPSEC_MB "")
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(aes_gcm "OpenSSL ${OPENSSL_VERSION}")
elseif(OPENSSL_VERSION VERSION_GREATER_EQUAL 3.1)
  set(aes_gcm "OpenSSL ${OPENSSL_VERSION}, which uses VAES")
else()
  find_library(IPSEC_MB_LIBRARY libIPSec_MB.a)
  if(IPSEC_MB_LIBRARY)
    include(CheckCSourceCompiles)
    set(CMAKE_REQUIRED_LIBRARIES ${IPSEC_MB_LIBRARY})
    check_c_source_compiles("
      #define NO_COMPAT_IMB_API_053
      #include <intel-ipsec-mb.h>
      void aes_keyexp_256_enc_avx512(const void *, void *);
      void aes_gcm_precomp_256_vaes_avx512(struct gcm_key_data *);
      void aes_gcm_enc_256_vaes_avx512(void), aes_gcm_dec_256_vaes_avx512(void), aes_gcm_init_256_vaes_avx512(void);
      void aes_gcm_enc_256_update_vaes_avx512(void), aes_gcm_enc_256_finalize_vaes_avx512(void);
      int main(void) {
        static struct gcm_key_data key;
        aes_keyexp_256_enc_avx512(\"\", key.expanded_keys);
        aes_gcm_precomp_256_vaes_avx512(&key);
        aes_gcm_enc_256_vaes_avx512(), aes_gcm_dec_256_vaes_avx512(), aes_gcm_init_256_vaes_avx512();
        aes_gcm_enc_256_update_vaes_avx512(), aes_gcm_enc_256_finalize_vaes_avx512();
        return sizeof key.ghash_keys.vaes_avx512 == 0;
      }" IPSEC_MB_HAS_VAES)
    unset(CMAKE_REQUIRED_LIBRARIES)
  endif()
  set(aes_gcm "OpenSSL ${OPENSSL_VERSION}, which has no VAES; libipsec-mb-dev would have it")
  if(IPSEC_MB_HAS_VAES)
    set(VERBENA_IPSEC_MB ${IPSEC_MB_LIBRARY})
    set(aes_gcm "${IPSEC_MB_LIBRARY} on processors with VAES, else OpenSSL ${OPENSSL_VERSION}")
  endif()
endif()
message(STATUS "AES-256-GCM by ${aes_gcm}")

# librados, only for the program with the engine over Ceph (src/cli/rados).
find_path(RADOS_INCLUDE rados/librados.hpp REQUIRED)
find_library(RADOS_LIBRARY rados REQUIRED)
add_library(verbena_librados INTERFACE)
target_include_directories(verbena_librados SYSTEM INTERFACE ${RADOS_INCLUDE})
target_link_libraries(verbena_librados INTERFACE ${RADOS_LIBRARY})

# libfabric: the system's if it is >= 2, else the one that `./dev setup` built (tools/build-libfabric.sh).
if(DEFINED ENV{VERBENA_CACHE})
  set(VERBENA_CACHE_DEFAULT $ENV{VERBENA_CACHE})
else()
  set(VERBENA_CACHE_DEFAULT $ENV{HOME}/.cache/verbena)
endif()
set(VERBENA_LIBFABRIC_PREFIX ${VERBENA_CACHE_DEFAULT}/libfabric-2.1.0 CACHE PATH "libfabric built by ./dev setup")
if(EXISTS ${VERBENA_LIBFABRIC_PREFIX}/.complete)
  set(ENV{PKG_CONFIG_PATH} "${VERBENA_LIBFABRIC_PREFIX}/lib/pkgconfig:$ENV{PKG_CONFIG_PATH}")
endif()
pkg_check_modules(LIBFABRIC REQUIRED IMPORTED_TARGET libfabric>=2.0)
message(STATUS "libfabric ${LIBFABRIC_VERSION} in ${LIBFABRIC_PREFIX}")
# In the build tree the program finds a privately built libfabric without LD_LIBRARY_PATH; installed: cmake/install.cmake.
if(EXISTS ${VERBENA_LIBFABRIC_PREFIX}/.complete)
  list(APPEND CMAKE_BUILD_RPATH ${VERBENA_LIBFABRIC_PREFIX}/lib)
endif()
