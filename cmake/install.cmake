# `cmake --install`: the program, the shared client library, headers, man pages, completions, the unit. Everything lands below
# DESTDIR. Where libfabric is our own build (Debian 12) it goes into a private folder beside the libraries, and both find it there.
set(private_libdir ${CMAKE_INSTALL_LIBDIR}/verbena)
file(RELATIVE_PATH bin_to_private ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR}/verbena)

file(RELATIVE_PATH programs_to_private ${CMAKE_INSTALL_FULL_LIBEXECDIR}/verbena ${CMAKE_INSTALL_FULL_LIBDIR}/verbena)

target_link_options(verbena PRIVATE -Wl,--as-needed)
target_link_options(verbena-rados PRIVATE -Wl,--as-needed)
if(EXISTS ${VERBENA_LIBFABRIC_PREFIX}/.complete)
  set_target_properties(verbena PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_private}")
  set_target_properties(verbena-rados PROPERTIES INSTALL_RPATH "$ORIGIN/${programs_to_private}")
  set_target_properties(verbena_shared PROPERTIES INSTALL_RPATH "$ORIGIN/verbena")
  file(REAL_PATH ${VERBENA_LIBFABRIC_PREFIX}/lib/libfabric.so.1 libfabric_file)
  install(FILES ${libfabric_file} DESTINATION ${private_libdir} RENAME libfabric.so.1 COMPONENT library)
else()
  set_target_properties(verbena verbena-rados verbena_shared PROPERTIES INSTALL_RPATH "")
endif()

# Said by the program itself, so they say what `--help` says. A cross build names an emulator (CMAKE_CROSSCOMPILING_EMULATOR).
set(documents ${CMAKE_BINARY_DIR}/documents)
add_custom_command(OUTPUT ${documents}/.complete
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${documents}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${documents}
  COMMAND verbena manual --write ${documents}/man
  COMMAND verbena completion bash > ${documents}/verbena.bash
  COMMAND verbena completion zsh > ${documents}/_verbena
  COMMAND verbena completion fish > ${documents}/verbena.fish
  COMMAND verbena config > ${documents}/verbena.yaml
  COMMAND ${CMAKE_COMMAND} -E touch ${documents}/.complete
  DEPENDS verbena COMMENT "Man pages, completions, configuration" VERBATIM)
add_custom_target(verbena_documents ALL DEPENDS ${documents}/.complete)
# What is installed and no more: `ninja verbena_install_set && cmake --install build`.
add_custom_target(verbena_install_set DEPENDS verbena verbena-rados verbena_shared verbena_documents)

foreach(file verbena.service verbena.tmpfiles verbena.sysusers)
  configure_file(${PROJECT_SOURCE_DIR}/deploy/systemd/${file}.in ${CMAKE_BINARY_DIR}/deploy/${file} @ONLY)
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/deploy/verbena.pc.in ${CMAKE_BINARY_DIR}/deploy/verbena.pc @ONLY)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/verbenaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
set(verbena_cmake ${CMAKE_INSTALL_LIBDIR}/cmake/verbena)

install(TARGETS verbena RUNTIME)
# Nobody calls it but `verbena` (src/cli/hand_over.h).
install(TARGETS verbena-rados RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/verbena)
# What programs are built against, found by pkg-config and by find_package(verbena): also by itself, `--component library`.
install(TARGETS verbena_shared EXPORT verbena LIBRARY COMPONENT library)
install(EXPORT verbena FILE verbenaConfig.cmake NAMESPACE verbena:: DESTINATION ${verbena_cmake} COMPONENT library)
install(FILES ${CMAKE_BINARY_DIR}/verbenaConfigVersion.cmake DESTINATION ${verbena_cmake} COMPONENT library)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/verbena DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
install(FILES ${CMAKE_BINARY_DIR}/deploy/verbena.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
install(FILES ${PROJECT_SOURCE_DIR}/docs/man/verbena.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3 COMPONENT library)
install(DIRECTORY ${documents}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${documents}/verbena.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME verbena)
install(FILES ${documents}/_verbena DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${documents}/verbena.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES ${documents}/verbena.yaml DESTINATION ${CMAKE_INSTALL_SYSCONFDIR}/verbena)
install(FILES ${CMAKE_BINARY_DIR}/deploy/verbena.service DESTINATION lib/systemd/system)
install(FILES ${CMAKE_BINARY_DIR}/deploy/verbena.sysusers DESTINATION lib/sysusers.d RENAME verbena.conf)
install(FILES ${CMAKE_BINARY_DIR}/deploy/verbena.tmpfiles DESTINATION lib/tmpfiles.d RENAME verbena.conf)
