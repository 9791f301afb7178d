# The compiler's flags: warnings, hardening, sanitizers, coverage.
add_compile_definitions(_GNU_SOURCE SPILLWAY_VERSION="${PROJECT_VERSION}")
add_compile_options(-Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
	-Wconversion -Wcast-qual -Wformat=2 -Wundef
	-fno-omit-frame-pointer -fPIE)
if(CMAKE_C_COMPILER_ID MATCHES Clang)
	# `require(!"what went wrong")` is a habit of ours. Clang takes every enum for an unsigned number:
	# signs are GCC's business.
	add_compile_options(-Wno-string-conversion -Wno-sign-conversion)
endif()
include_directories(${CMAKE_SOURCE_DIR})

# CMake's own -O and -g are replaced. Sanitize is a build type of ours.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")
set(CMAKE_C_FLAGS_DEBUG "-O0 -g3")
set(CMAKE_C_FLAGS_SANITIZE "-O1 -g1")

if(SPILLWAY_SANITIZE)
	add_compile_options(-fsanitize=${SPILLWAY_SANITIZE} -fno-sanitize-recover=all)
	add_link_options(-fsanitize=${SPILLWAY_SANITIZE})
elseif(SPILLWAY_COVERAGE)
	# Atomic: several threads count.
	add_compile_options(--coverage -fprofile-update=atomic)
	add_compile_definitions(SPILLWAY_COVERAGE=1)
	add_link_options(--coverage)
elseif(NOT CMAKE_BUILD_TYPE STREQUAL Debug)
	# _FORTIFY_SOURCE hides from ASan what it would otherwise report. GCC finds null pointers only when
	# it optimises, and sees some where a sanitizer adds code.
	add_compile_definitions(_FORTIFY_SOURCE=2)
	add_compile_options(-Wnull-dereference -fstack-protector-strong -fcf-protection=full)
	add_link_options(-Wl,-z,relro,-z,now,-z,shstk)
endif()
add_link_options(-pie)
