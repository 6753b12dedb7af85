"""A folder like COCO 2017's with a few small pictures."""

import json
from pathlib import Path

import cv2
import numpy as np

PERSON = 1
DOG = 18


def write_tiny_coco(folder: Path, *, pictures: int = 6) -> Path:
    """train2017 and val2017 of so many pictures each; the odd ones show a person, all a dog."""
    random = np.random.default_rng(5)
    (folder / "annotations").mkdir(parents=True)
    for split in ("train2017", "val2017"):
        (folder / split).mkdir()
        images, instances, people = [], [], []
        for number in range(1, pictures + 1):
            height, width = (96, 128) if number % 3 else (128, 96)
            coarse = random.integers(0, 256, (6, 8, 3), dtype=np.uint8)
            picture = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
            name = f"{number:012}.png"
            cv2.imwrite(str(folder / split / name), picture)
            images.append({"id": number, "file_name": name, "height": height, "width": width})
            box = [10.0, 20.0, 30.0, 40.0]
            one = {"image_id": number, "bbox": box, "iscrowd": 0, "id": number}
            instances.append({**one, "category_id": DOG})
            if number % 2:
                instances.append({**one, "category_id": PERSON})
                people.append({**one, "category_id": PERSON, "num_keypoints": 10})
            else:
                instances.append({**one, "category_id": PERSON, "iscrowd": 1})
                people.append({**one, "category_id": PERSON, "num_keypoints": 9})
        for kind, annotations in (("instances", instances), ("person_keypoints", people)):
            path = folder / "annotations" / f"{kind}_{split}.json"
            path.write_text(json.dumps({"images": images, "annotations": annotations, "info": {}}))
    return folder
