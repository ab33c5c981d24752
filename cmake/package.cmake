# Contents of `cmake --install` and the Debian package (`cpack -G DEB`) beside the programs.
include(GNUInstallDirs)
set(CPACK_SET_DESTDIR ON)  # /etc is not below the prefix
set(CPACK_INSTALL_PREFIX /usr)
file(GLOB man5 CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.5)
file(GLOB man8 CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.8)
file(GLOB completions CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/packaging/completion/*.bash)
file(GLOB guides CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/*.md)
foreach(page ${man5} ${man8})  # Debian's policy wants them compressed, without a time in them
  get_filename_component(name ${page} NAME)
  string(REGEX MATCH "[0-9]$" section ${name})
  set(packed ${CMAKE_BINARY_DIR}/man/${name}.gz)
  add_custom_command(OUTPUT ${packed} COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/man
    COMMAND gzip -9nc ${page} > ${packed} DEPENDS ${page} VERBATIM)
  list(APPEND packed_pages ${packed})
  install(FILES ${packed} DESTINATION share/man/man${section})
endforeach()
# Debian's changelog has the version and where the changes are told; SOURCE_DATE_EPOCH sets its date.
string(TIMESTAMP changelog_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(${CMAKE_SOURCE_DIR}/packaging/debian/changelog.in ${CMAKE_BINARY_DIR}/debian/changelog @ONLY)
set(packed_changelog ${CMAKE_BINARY_DIR}/debian/changelog.gz)
add_custom_command(OUTPUT ${packed_changelog} COMMAND gzip -9nc ${CMAKE_BINARY_DIR}/debian/changelog > ${packed_changelog}
  DEPENDS ${CMAKE_BINARY_DIR}/debian/changelog VERBATIM)
add_custom_target(man ALL DEPENDS ${packed_pages} ${packed_changelog})
foreach(completion ${completions})
  get_filename_component(name ${completion} NAME_WE)
  install(FILES ${completion} DESTINATION share/bash-completion/completions RENAME ${name})
endforeach()
file(GLOB dissector CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/packaging/wireshark/*.lua)
install(FILES ${dissector} DESTINATION share/continuo/wireshark)
install(FILES ${guides} docs/openapi.json README.md CHANGELOG.md DESTINATION share/doc/continuo)
install(FILES packaging/grafana/snapt.json DESTINATION share/continuo/grafana)
# Where the whole system is ours: an installation below another prefix leaves /etc and the units alone.
set(CONTINUO_PACKAGING ${CMAKE_SOURCE_DIR}/packaging)
install(CODE "
  if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
    file(INSTALL ${CONTINUO_PACKAGING}/policy.toml ${CONTINUO_PACKAGING}/config/cnapt.toml.example
      ${CONTINUO_PACKAGING}/config/snapt.toml.example ${CONTINUO_PACKAGING}/config/plan.toml.example
      DESTINATION /etc/continuo)
    file(INSTALL ${CONTINUO_PACKAGING}/systemd/cnapt.service ${CONTINUO_PACKAGING}/systemd/snapt.service
      ${CONTINUO_PACKAGING}/systemd/cnapt-resolver.socket ${CONTINUO_PACKAGING}/systemd/cnapt-resolver@.service
      DESTINATION /usr/lib/systemd/system)
    file(INSTALL ${CONTINUO_PACKAGING}/tmpfiles/continuo.conf DESTINATION /usr/lib/tmpfiles.d)
    file(INSTALL ${CONTINUO_PACKAGING}/debian/copyright ${packed_changelog} DESTINATION /usr/share/doc/continuo)
    file(INSTALL ${CONTINUO_PACKAGING}/debian/lintian-overrides DESTINATION /usr/share/lintian/overrides RENAME continuo)
  else()
    file(INSTALL ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION \${CMAKE_INSTALL_PREFIX}/share/doc/continuo)
  endif()")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME continuo)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "mobility-transparent tunnel that aggregates traffic")
set(CPACK_PACKAGE_DESCRIPTION
  "cnapt keeps the connections of a mobile host alive while it changes its\nnetworks, and snapt relays them to the Internet. Small packets travel in\naggregates.")
set(CPACK_PACKAGE_CONTACT "Continuo maintainers <maintainers@continuo.invalid>")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "adduser, netbase")  # nftables reads /etc/protocols
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS tzdata)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "iproute2, nftables, wireshark")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
file(WRITE ${CMAKE_BINARY_DIR}/debian/conffiles
  "/etc/continuo/policy.toml\n/etc/continuo/cnapt.toml.example\n/etc/continuo/snapt.toml.example\n/etc/continuo/plan.toml.example\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/debian/conffiles
  ${CMAKE_SOURCE_DIR}/packaging/debian/postinst ${CMAKE_SOURCE_DIR}/packaging/debian/prerm
  ${CMAKE_SOURCE_DIR}/packaging/debian/postrm)
include(CPack)
