# Run by CPack before it makes a package of what was installed: the .deb gets what only Debian has.
if(NOT CPACK_GENERATOR STREQUAL DEB)
	return()
endif()
set(source ${CPACK_SPILLWAY_SOURCE}/deploy)
set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
set(documents ${root}/usr/share/doc/spillway)

# put(SOURCE TARGET [MODE]): a file of another name or mode
function(put from to)
	get_filename_component(folder ${to} DIRECTORY)
	file(MAKE_DIRECTORY ${folder})
	file(COPY_FILE ${from} ${to})
	if(ARGN)
		file(CHMOD ${to} PERMISSIONS ${ARGN})
	endif()
endfunction()

# Debian wants pages and changelogs packed, without the time of the packing.
function(pack)
	execute_process(COMMAND gzip -9nf ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

put(${source}/systemd/spillway.service ${root}/lib/systemd/system/spillway.service)
put(${source}/debian/spillway.yaml ${root}/etc/spillway/spillway.yaml OWNER_READ OWNER_WRITE GROUP_READ)
put(${source}/debian/copyright ${documents}/copyright)
put(${source}/debian/lintian-overrides ${root}/usr/share/lintian/overrides/spillway)
file(RENAME ${root}/usr/share/zsh/site-functions ${root}/usr/share/zsh/vendor-completions)
# The copyright names it, and every Debian has its text.
file(REMOVE ${documents}/LICENSE ${documents}/examples/spillway.service)
execute_process(COMMAND ${source}/debian/changelog ${CPACK_SPILLWAY_SOURCE} ${CPACK_PACKAGE_VERSION}
	${CPACK_PACKAGE_CONTACT}
	OUTPUT_FILE ${documents}/changelog COMMAND_ERROR_IS_FATAL ANY)
file(RENAME ${documents}/CHANGELOG.md ${documents}/NEWS)
file(GLOB pages ${root}/usr/share/man/man*/*)
pack(${documents}/changelog ${documents}/NEWS ${pages})
