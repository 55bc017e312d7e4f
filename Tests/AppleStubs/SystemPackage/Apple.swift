// What swift-system has on Apple's platforms and not on Linux: `Scripts/check-apple.py` compiles its sources with this file.
import Glibc

public typealias mode_t = UInt16

extension FileDescriptor.SeekOrigin {
    public static var nextHole: FileDescriptor.SeekOrigin { FileDescriptor.SeekOrigin(rawValue: 3) }
    public static var nextData: FileDescriptor.SeekOrigin { FileDescriptor.SeekOrigin(rawValue: 4) }
}

func umask(_ mode: mode_t) -> mode_t { 0 }
func open(_ path: UnsafePointer<CChar>, _ flags: Int32, _ mode: mode_t) -> Int32 { 0 }
func mkdir(_ path: UnsafePointer<CChar>, _ mode: mode_t) -> Int32 { 0 }
