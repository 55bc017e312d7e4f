import Foundation

// libFuzzer's driver, which the linker takes from the compiler's runtime.
@_silgen_name("LLVMFuzzerRunDriver")
private func runDriver(
    _ count: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ test: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

/// The parser of this process, which `FORGE_FUZZ_PARSER` names.
private let parser: FuzzedParser = {
    let name = ProcessInfo.processInfo.environment["FORGE_FUZZ_PARSER"] ?? ""
    guard let parser = FuzzedParser(rawValue: name) else {
        let names = FuzzedParser.allCases.map(\.rawValue).joined(separator: " ")
        FileHandle.standardError.write(Data("FORGE_FUZZ_PARSER is none of: \(names)\n".utf8))
        exit(64)
    }
    return parser
}()

/// Runs before the first input; with `FORGE_FUZZ_SEEDS`, writes the parser's first inputs to that directory instead.
@_cdecl("LLVMFuzzerInitialize")
public func forgeFuzzInitialize(
    _ count: UnsafeMutablePointer<CInt>?,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>?
) -> CInt {
    if let directory = ProcessInfo.processInfo.environment["FORGE_FUZZ_SEEDS"] {
        do {
            try parser.writeSeeds(to: URL(fileURLWithPath: directory))
            exit(0)
        } catch {
            FileHandle.standardError.write(Data("\(error)\n".utf8))
            exit(1)
        }
    }
    AllocationLimit.install()
    return 0
}

/// Parses one input.
@_cdecl("LLVMFuzzerTestOneInput")
public func forgeFuzzTest(_ bytes: UnsafePointer<UInt8>?, _ size: Int) -> CInt {
    let input = [UInt8](UnsafeBufferPointer(start: bytes, count: size))
    AllocationLimit.measure { parser.parse(input) }
    return 0
}

/// The entry point as SwiftPM names it, after the module; some linkers take that of libFuzzer instead.
@_cdecl("forge_fuzz_main")
public func forgeFuzzMain(
    _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>
) -> CInt {
    var (count, arguments) = (count, arguments)
    return runDriver(&count, &arguments, forgeFuzzTest)
}

// The hooks of the sanitizers' runtime, which the linker takes from it (sanitizer/allocator_interface.h).
@_silgen_name("__sanitizer_install_malloc_and_free_hooks")
private func installHooks(
    _ allocated: @convention(c) (UnsafeRawPointer?, Int) -> Void, _ freed: @convention(c) (UnsafeRawPointer?) -> Void
) -> CInt

@_silgen_name("__sanitizer_get_allocated_size")
private func allocatedSize(_ memory: UnsafeRawPointer?) -> Int

@_silgen_name("abort")
private func abort() -> Never

/// The most bytes that all allocations for one input may have at the same time.
private let limitInBytes = 64 << 20

// Not exact when several threads allocate at the same time, which does not matter beside the limit.
nonisolated(unsafe) private var growth = 0
nonisolated(unsafe) private var isMeasuring = false

/// Ends the process when a parser has more memory than a small input may cost: resident memory cannot show that, because
/// most of it is the sanitizer's.
enum AllocationLimit {
    /// Counts from now on.
    static func install() {
        let installed = installHooks(
            { _, size in
                guard isMeasuring else { return }
                growth += size
                if growth > limitInBytes { abort() }
            },
            { memory in
                if isMeasuring { growth -= allocatedSize(memory) }
            })
        precondition(installed != 0, "the runtime has no room for more hooks")
    }

    /// Parses one input within the limit.
    static func measure(_ parse: () -> Void) {
        growth = 0
        isMeasuring = true
        parse()
        isMeasuring = false
    }
}
