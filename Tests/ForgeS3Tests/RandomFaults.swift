#if S3
import ForgeStorageTesting
import Foundation

/// Faults that a server chooses at random, by a seed.
struct RandomFaults: Sendable {
    private var generator: SplitMix64

    /// One of how many requests meets a fault.
    private let rate: Int

    /// Whether a request may get a changed byte.
    private let damages: @Sendable (FaultyS3.Request) -> Bool

    /// How many requests there were.
    private(set) var requests = 0

    /// How many requests have met each fault.
    private(set) var counts: [String: Int] = [:]

    init(seed: UInt64, oneOf rate: Int, damaging damages: @escaping @Sendable (FaultyS3.Request) -> Bool) {
        generator = SplitMix64(seed: seed)
        self.rate = rate
        self.damages = damages
    }

    /// The fault of a request; nil for most.
    mutating func next(_ request: FaultyS3.Request) -> FaultyS3.Fault? {
        requests += 1
        guard Int.random(in: 0..<rate, using: &generator) == 0 else { return nil }
        let all = faults(of: request)
        guard let (name, fault) = all.randomElement(using: &generator) else { return nil }
        counts[name, default: 0] += 1
        return fault
    }

    private mutating func faults(of request: FaultyS3.Request) -> [(String, FaultyS3.Fault)] {
        let delay = Duration.milliseconds(Int.random(in: 1...30, using: &generator))
        var faults: [(String, FaultyS3.Fault)] = [
            ("500", .fails(500, "InternalError")), ("503", .fails(503, "SlowDown")), ("lost request", .losesRequest),
            ("lost answer", .losesAnswer), ("late answer", .isLate(delay)), ("cut answer", .cutsBody),
            ("200 with an error", .hidesAnswer("InternalError")),
        ]
        // A proxy must not repeat a request that is not idempotent (RFC 9110, 9.2.2); the end of an upload is.
        if request.query["uploads"] == nil || request.method == "GET" { faults.append(("repeated", .repeats)) }
        if request.method == "GET", request.query.isEmpty {
            faults.append(("shorter answer", .shortens))
            if damages(request) { faults.append(("changed byte", .damages)) }
        }
        let isEnd = request.method == "POST" && request.query["uploadId"] != nil
        if isEnd || request.method == "PUT" && request.query.isEmpty {
            faults.append(("409", .fails(409, "ConditionalRequestConflict")))
        }
        return faults
    }
}
#endif
