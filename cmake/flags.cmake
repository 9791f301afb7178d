# The compiler's flags: warnings, hardening, sanitizers.
add_compile_definitions(_GNU_SOURCE SPILLWAY_VERSION="${PROJECT_VERSION}")
add_compile_options(-Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
	-fno-omit-frame-pointer -fPIE)
include_directories(${CMAKE_SOURCE_DIR})

# CMake's own -O and -g are replaced: the presets name build types of ours.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")
set(CMAKE_C_FLAGS_SANITIZE "-O1 -g1")

if(SPILLWAY_SANITIZE)
	add_compile_options(-fsanitize=${SPILLWAY_SANITIZE} -fno-sanitize-recover=all)
	add_link_options(-fsanitize=${SPILLWAY_SANITIZE})
else()
	# _FORTIFY_SOURCE hides from ASan what it would otherwise report.
	add_compile_definitions(_FORTIFY_SOURCE=2)
	add_compile_options(-fstack-protector-strong -fcf-protection=full)
	add_link_options(-Wl,-z,relro,-z,now,-z,shstk)
endif()
add_link_options(-pie)
