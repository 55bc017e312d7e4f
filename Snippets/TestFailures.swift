// Tests of code on a store that is reopened, fails, or loses power.
import ForgeCrashTesting
import ForgeStorage
import ForgeStorageTesting

// snippet.reopen
let score = KVKey<Int>("score")
let disk = InMemoryFileSystem()

let firstRun = try FileKVStore(at: "/store", fileSystem: disk)
try firstRun.set(score, value: 1)
try firstRun.close()

let secondRun = try FileKVStore(at: "/store", fileSystem: disk)
assert(secondRun.get(score) == 1)
// snippet.end

// snippet.full
try disk.setQuota(.init(sizeInBytes: disk.usage().sizeInBytes))
do {
    try secondRun.set(KVKey<String>("text"), value: String(repeating: "x", count: 1_000_000))
    assertionFailure("there is no space")
} catch let error as KVStoreError where error.isOutOfSpace {
    assert(secondRun.get(score) == 1)  // Nothing else was lost.
}
// snippet.end

// snippet.device
let plan = FaultPlan()
let broken = try FileKVStore(at: "/store", fileSystem: FaultingFileSystem(InMemoryFileSystem(), plan: plan))
plan.add(.fail(.synchronize, every: 1, with: .ioError))
do {
    try broken.set(score, value: 2, durability: .full)
    assertionFailure("the device has failed")
} catch let error as KVStoreError where error.code == .durabilityUnknown {
    assert(broken.get(score) == 2)  // The change is made; a power cut may undo it.
}
try plan.requireAllFired()
// snippet.end

// snippet.power
struct Lost: Error {}

try await forEachCrash { fileSystem, run in
    let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
    try store.set(score, value: 1, durability: .full)
    run.acknowledge("saved")
} recover: { fileSystem, crash in
    let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
    if crash.acknowledged.contains("saved"), store.get(score) != 1 { throw Lost() }
}
// snippet.end
