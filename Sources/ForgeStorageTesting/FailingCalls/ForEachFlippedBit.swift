public import ForgeFileSystem

/// The result of a loop over flipped bits.
public struct FlippedBitReport: Hashable, Sendable {
    /// The number of bits that were flipped, one at a time.
    public internal(set) var bitCount = 0

    /// The number of those that the body read; flips of others cannot be detected.
    public internal(set) var readCount = 0
}

/// Runs `body` once for each bit of a file, with that bit flipped in every read.
///
/// - Parameters:
///   - path: The file.
///   - step: The distance between flipped bits; 1 flips every bit.
///   - makeFileSystem: Makes a file system that contains the file.
///   - body: Reads the file and throws if it gets a wrong value.
/// - Returns: A report of the runs.
/// - Throws: ``ConformanceViolation`` with the flipped bit and the error of `body`, ``NothingFailed`` if the body read
///   nothing of the file.
@discardableResult
public func forEachFlippedBit(
    of path: POSIXPath, every step: Int = 1, on makeFileSystem: () throws -> any POSIXFileSystem,
    _ body: (FaultingFileSystem) throws -> Void
) throws -> FlippedBitReport {
    var report = FlippedBitReport()
    let sizeInBytes = try makeFileSystem().status(path).sizeInBytes
    for number in stride(from: 0, to: 8 * sizeInBytes, by: step) {
        let base = try makeFileSystem()
        let corruption = FileCorruption.flippedBit(offset: number / 8, bit: Int(number % 8))
        let rule = FaultRule([.read], matching: .inode(try base.status(path).inode), do: .corrupt(corruption))
        let plan = FaultPlan([rule])
        do {
            try body(FaultingFileSystem(base, plan: plan))
        } catch {
            throw ConformanceViolation("\(path) with \(corruption): \(error)")
        }
        report.bitCount += 1
        report.readCount += plan.firedCount > 0 ? 1 : 0
    }
    guard report.readCount > 0 else { throw NothingFailed(description: "nothing of \(path) was read") }
    return report
}
