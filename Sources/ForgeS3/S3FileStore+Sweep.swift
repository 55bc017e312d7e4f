#if S3
import ForgeFileStore
import Foundation
import Logging
import NIOCore

extension S3FileStore {
    /// Aborts recorded uploads of which no part has arrived for an age, and removes their records.
    func removeUploads(olderThan age: Duration) async throws -> Int {
        let limit = transport.serverTime - age / .seconds(1)
        var count = 0
        try await forEachPage(S3ListRequest(prefix: place.records, isFlat: true), .delete, "") { page in
            for entry in page.entries where entry.modified <= limit {
                do throws(S3Error) {
                    count += try await removeUploads(of: entry, lastUsedBefore: limit)
                } catch {
                    throw failure(error, .delete, "")
                }
            }
        }
        return count
    }

    /// Aborts the uploads of a record that are not in use, and removes the record if none is left.
    private func removeUploads(of entry: S3Page.Entry, lastUsedBefore limit: Date) async throws(S3Error) -> Int {
        guard let record = try await record(entry) else { return 0 }
        var ids: [String] = []
        var hasRecent = false
        if let id = record.upload { ids.append(id) }
        if record.upload == nil || record.hasOthers == true {
            let others = try await S3Upload.unfinished(record.object, transport)
                .filter { record.mayBeOwn(begun: $0.begun, recorded: entry.modified) && $0.id != record.upload }
            // One that has just begun may be in use although it has no part yet.
            ids += others.filter { $0.begun <= limit }.map(\.id)
            hasRecent = others.contains { $0.begun > limit }
        }
        var (count, isDone) = (0, !hasRecent)
        for id in ids {
            let upload = S3Upload(object: record.object, id: id, transport)
            switch try await upload.lastPart() {
            case .gone: break
            case .arrived(let time?) where time > limit: isDone = false
            case .arrived:
                guard await upload.abort() else {
                    isDone = false
                    continue
                }
                count += 1
            }
        }
        if isDone { await S3UploadRecord.forget(entry.object, transport) }
        return count
    }

    /// The content of a record; nil if it is gone or not valid.
    private func record(_ entry: S3Page.Entry) async throws(S3Error) -> S3UploadRecord? {
        let content: S3Response
        do throws(S3Error) {
            content = try await transport.send(S3Request(name: "GetObject", object: entry.object))
        } catch {
            guard error.code == "NoSuchKey" else { throw error }
            return nil
        }
        do {
            let record = try JSONDecoder().decode(S3UploadRecord.self, from: Data(content.bytes.readableBytesView))
            if record.isValid(prefix: place.prefix) { return record }
        } catch {}
        configuration.logger.notice("the record of an upload is not valid")
        return nil
    }
}
#endif
