# What `cmake --install` puts where, and how CPack makes the .deb and the archive of it.
include(GNUInstallDirs)
install(TARGETS spillway)
install(FILES docs/man/spillway.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES docs/man/spillway.yaml.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5)
install(FILES deploy/completion/spillway.bash RENAME spillway
	DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES deploy/completion/_spillway
	DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/spillway)
install(FILES deploy/grafana.json deploy/alerts.yml deploy/systemd/spillway.service deploy/systemd/spillway.socket
	DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/spillway/examples)
install(DIRECTORY deploy/examples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/spillway/examples)

set(SPILLWAY_MAINTAINER "The Spillway developers <spillway@localhost.localdomain>" CACHE STRING
	"who answers for the package that is built: NAME <ADDRESS>")
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME spillway)
set(CPACK_PACKAGE_CONTACT "${SPILLWAY_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "proxy for MongoDB that stores long arrays in overflow documents")
set(CPACK_PACKAGE_FILE_NAME spillway-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/deploy/debian/stage.cmake)
set(CPACK_SPILLWAY_SOURCE ${CMAKE_SOURCE_DIR})

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Spillway stands between applications and mongod, and speaks MongoDB's wire
protocol on both sides. It applies the outlier pattern to arrays that grow
without end: the tail of a long array moves to overflow documents, and
applications go on to read and write one whole array.

The service is not started before it is configured.")
set(CPACK_DEBIAN_PACKAGE_SECTION database)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "adduser, init-system-helpers (>= 1.54~)")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA)
foreach(script postinst prerm postrm conffiles)
	list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/deploy/debian/${script})
endforeach()
include(CPack)
