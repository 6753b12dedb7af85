"""Faster, Mask and Keypoint R-CNN, cut inside their backbone. Needs the extra `rcnn`.

    picture -> transform -> layer0 -> encoder ~~~ decoder -> layer2 .. 4 -> FPN -> RPN -> RoI heads
                                |
                                +-> neural filter: nothing to see, nothing is sent

(Matsubara and Levorato, "Neural Compression and Filtering for Edge-assisted Real-time Object
Detection in Challenged Networks", ICPR 2020.) `python -m headtail_models.rcnn.train --help` trains
them; docs/rcnn.md tells how.
"""
