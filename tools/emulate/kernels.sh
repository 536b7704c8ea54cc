#!/usr/bin/env bash
# Runs the tests of the CPU kernels on an emulated processor with AVX-512 and AMX (Bochs' Sapphire Rapids), for machines that have none. Needs
# Debian and root, for the packages; takes a while, since an emulated processor is slow. Arguments: names of tests to run.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$PWD/target/emulate
bochs=$work/bochs-3.0
mkdir -p "$work"/image/{bin,proc,dev} "$work"/iso/isolinux

apt-get install -y --no-install-recommends g++ make patch xz-utils bochsbios vgabios isolinux syslinux-common genisoimage cpio busybox-static >/dev/null
kernel=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
[ -e "$work/$kernel" ] || (cd "$work" && apt-get download "$kernel" && dpkg -x "$kernel"_*.deb "$kernel")

# Bochs has AMX since 3.0, in Debian 13, but not the switch (XFD) without which Linux offers no tiles: the patch adds it. Its traces are not
# linked (as --enable-all-optimizations would), because then the kernel does not come up.
if [ ! -x "$bochs/bochs" ]; then
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' | head -1)
    mkdir -p "$work/lists/partial"
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" > "$work/sources.list"
    apt=(apt-get -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$work/lists")
    "${apt[@]}" update
    (cd "$work" && "${apt[@]}" source --download-only --tar-only bochs)
    rm -rf "$bochs"
    tar -C "$work" -xf "$work"/bochs_3.0*.orig.tar.xz
    patch -d "$bochs" -p1 < tools/emulate/xfd.patch
    # When another thread had its turn, tiles came back with rows and bytes exchanged, eight rows of sixteen, or not at all.
    sed -i -e '/vmm16u(8+n)/s/\.rows/.bytes_per_row/' -e '/vmmubyte(48+n)/s/\.bytes_per_row/.rows/' \
        -e 's/row < BX_TILE_REGISTERS/row < BX_TILE_MAX_ROWS/' -e 's/tile_use_tracker == 0/tile_use_tracker != 0/' "$bochs/cpu/xsave.cc"
    (cd "$bochs" && ./configure --with-nogui --enable-x86-64 --enable-avx --enable-evex --enable-amx --enable-repeat-speedups --enable-fast-function-calls --enable-handlers-chaining --disable-docbook && make) > "$work/bochs-build.txt" 2>&1
fi

# One file that needs no library, and the goldens where the tests look for them.
RUSTFLAGS="-C target-feature=+crt-static" cargo test -p bdo-kernels --test kernels --no-run --target x86_64-unknown-linux-gnu --target-dir "$work/build"
tests=$(find "$work"/build/x86_64-unknown-linux-gnu/debug/deps -name 'kernels-*' -type f -executable -printf '%T@ %p\n' | sort -n | tail -1 | cut -d' ' -f2)
strip -o "$work/image/kernels" "$tests"
cp /bin/busybox "$work/image/bin/busybox"
mkdir -p "$work/image$PWD"/{crates/bdo-kernels,testdata/golden}
cp testdata/golden/kernels.txt "$work/image$PWD/testdata/golden/"
cat > "$work/image/init" <<INIT
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
for flag in avx2 avx512f amx_tile amx_bf16; do /bin/busybox grep -q -w \$flag /proc/cpuinfo && echo has \$flag; done
/kernels --show-output run_or_are_named
/kernels --test-threads 1 $*
echo EXIT \$?
/bin/busybox sleep 3
/bin/busybox poweroff -f
INIT
chmod +x "$work/image/init"
(cd "$work/image" && find . | cpio --quiet -o -H newc > "$work/iso/initrd")

cp "$work/$kernel"/boot/vmlinuz-* "$work/iso/vmlinuz"
cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 "$work/iso/isolinux/"
# Without fast short string moves (580): the emulator reports no fast long ones, and with one and not the other the kernel's memmove runs away.
cat > "$work/iso/isolinux/isolinux.cfg" <<'CFG'
default bdo
label bdo
 kernel /vmlinuz
 append initrd=/initrd rdinit=/init console=ttyS0 quiet clearcpuid=580 mitigations=off nokaslr tsc=reliable lpj=1000000
CFG
genisoimage -quiet -o "$work/boot.iso" -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table "$work/iso"
# Without timed pauses, which never end here, and without five-level page tables, with which the emulator fails to leave the firmware's mode.
cat > "$work/bochsrc" <<CFG
cpu: model=sapphire_rapids, count=1, ips=50000000, reset_on_triple_fault=0, exclude_features="waitpkg,la57"
memory: guest=1024, host=1024
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
ata0-master: type=cdrom, path=$work/boot.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$work/serial.txt
display_library: nogui
log: $work/bochs.log
# Its clock reports through the log in the middle of other reports and waits for itself: let it be silent.
info: action=ignore
error: action=ignore
panic: action=report
CFG
: > "$work/serial.txt"
# An hour is many times what it takes: a guest that hangs ends too.
timeout 3600 "$bochs/bochs" -q -f "$work/bochsrc" < /dev/null > "$work/screen.txt" 2>&1 &
emulator=$!
trap 'kill $emulator 2>/dev/null || true' EXIT
# The pipe breaks at the last line, by intent.
tail -n +1 -f "$work/serial.txt" --pid=$emulator | sed -u -e 's/\r//g' -e '/^EXIT/q' | tee "$work/output.txt" || true
for wanted in 'has avx512f' 'has amx_tile' 'has amx_bf16' 'tested on avx512' 'tested on AMX tiles' 'EXIT 0'; do
    grep -a -q -x "$wanted" "$work/output.txt" || { echo "missing: $wanted" >&2; exit 1; }
done
